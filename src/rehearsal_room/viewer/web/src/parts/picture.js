// Pictures that a text holds: only raster images that are in the text itself. Nothing is loaded from
// elsewhere, and an SVG is not shown.
import { html } from "../base/html.js";

const KINDS = /^image\/(png|jpeg|gif|webp)$/;
const DATA_URL = /^data:(image\/[a-z+.-]+);base64,([A-Za-z0-9+/\s]+={0,2}\s*)$/;
const MOST = 6_000_000; // characters

// The data URL of a picture: of a data URL, or of a block { type: "image", data, mimeType }; null:
// the value is none.
export function pictureOf(value) {
  if (typeof value === "string") {
    if (!value.startsWith("data:image/") || value.length > MOST) return null;
    const [, kind] = DATA_URL.exec(value) ?? [];
    return kind && KINDS.test(kind) ? value : null;
  }
  if (!value || typeof value !== "object") return null;
  const { data, mimeType } = value;
  if (typeof data === "string" && KINDS.test(mimeType ?? "")) return pictureOf(`data:${mimeType};base64,${data}`);
  return pictureOf(value.image_url?.url ?? null);
}

export const holdsPicture = (text) => /"image\/(png|jpeg|gif|webp)"|data:image\/(png|jpeg|gif|webp);base64,/.test(text);

export function Picture({ src, alt = "Picture in the result" }) {
  return html`<img class="picture" src=${src} alt=${alt} loading="lazy" />`;
}
