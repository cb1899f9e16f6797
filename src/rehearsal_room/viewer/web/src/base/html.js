// Markup as tagged templates: texts become text nodes, never HTML.
import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);
