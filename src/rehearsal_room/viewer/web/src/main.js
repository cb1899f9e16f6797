// The page of `rehearse view`: reads the address, shows the view.
import { render } from "preact";
import { html } from "./base/html.js";
import { openSource } from "./base/source.js";
import { Shell } from "./shell.js";

async function start() {
  const root = document.getElementById("app");
  await openSource();
  root.replaceChildren();
  render(html`<${Shell} />`, root);
}

start().catch((error) => {
  document.getElementById("app").textContent = `This file cannot be read: ${error.message}`;
});
