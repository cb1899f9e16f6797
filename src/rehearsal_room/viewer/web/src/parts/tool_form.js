// A form for every tool, made from the JSON schema of its arguments.
import { useState } from "preact/hooks";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Notice } from "./basics.js";
import { Passage, Word } from "./texts.js";

// `onCall(tool, arguments)` makes a call; its promise ends when the result is there.
export function ToolForm({ tools, onCall, isOver }) {
  const [name, setName] = useState(tools[0]?.name ?? "");
  const [values, setValues] = useState({});
  const [state, setState] = useState({});
  const tool = tools.find((one) => one.name === name);
  // At once, with the choice: an effect runs after the new fields are there, and took what was typed by then.
  const choose = (event) => {
    setName(event.currentTarget.value);
    setValues({});
    setState({});
  };
  if (!tool) return html`<p class="dim">This world has no tools.</p>`;
  const fields = fieldsOf(tool.schema ?? {});
  const call = async (event) => {
    event.preventDefault();
    let args;
    try {
      args = readArguments(fields, values);
    } catch (error) {
      return setState({ error: error.message });
    }
    setState({ isBusy: true });
    try {
      await onCall(name, args);
      return setState({});
    } catch (error) {
      return setState({ error: error.message });
    }
  };
  return html`<form class="tool-form" onSubmit=${call}>
    <label class="field"><span>Tool</span><select value=${name} onChange=${choose}>${tools.map((one) => html`<option value=${one.name}>${visible(one.name)}</option>`)}</select></label>
    <${Passage} class="dim small" value=${tool.description ?? ""} most=${500} />
    ${fields.map((field) => html`<${Field} key=${`${name}.${field.name}`} field=${field} value=${values[field.name] ?? ""} onInput=${(value) => setValues((now) => ({ ...now, [field.name]: value }))} />`)}
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    <div><button class="button primary" type="submit" disabled=${state.isBusy || isOver}>${state.isBusy ? "Calling…" : "Call"} <span class="mono"><${Word} value=${name} /></span></button></div>
  </form>`;
}

function Field({ field, value, onInput }) {
  const { name, kind, choices, hint, isRequired } = field;
  const input = (event) => onInput(event.currentTarget.value);
  const label = html`<span><code><${Word} value=${name} /></code> ${isRequired ? "" : html`<i>optional</i>`}</span>`;
  const note = hint && html`<small class="dim"><${Word} value=${hint} /></small>`;
  if (choices) {
    return html`<label class="field">${label}<select value=${value} required=${isRequired} onChange=${input}><option value="">${isRequired ? "Choose" : "Not given"}</option>${choices.map((one, i) => html`<option value=${String(i)}>${visible(String(one))}</option>`)}</select>${note}</label>`;
  }
  if (kind === "json") {
    return html`<label class="field">${label}<textarea class="mono" spellcheck="false" required=${isRequired} placeholder=${field.example} value=${value} onInput=${input}></textarea>${note}</label>`;
  }
  const isNumber = kind === "integer" || kind === "number";
  return html`<label class="field">${label}<input type="text" inputmode=${isNumber ? "decimal" : undefined} required=${isRequired} spellcheck="false" autocomplete="off" placeholder=${field.example} value=${value} onInput=${input} />${note}</label>`;
}

// The fields of a schema: { name, kind, choices, hint, example, isRequired }.
function fieldsOf(schema) {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, raw]) => {
    const one = resolve(raw, schema);
    const choices = one.enum ?? (one.type === "boolean" ? [true, false] : undefined);
    const hint = [raw.description ?? one.description, bounds(one), raw.default !== undefined && raw.default !== null && `default ${JSON.stringify(raw.default)}`].filter(Boolean).join("; ");
    const kind = ["string", "integer", "number"].includes(one.type) ? one.type : "json";
    return { name, kind, choices, hint, example: example(kind, one, raw), isRequired: required.includes(name), isNullable: one.isNullable };
  });
}

// A schema without $ref, and with `anyOf` [X, null] as X.
function resolve(one, root, depth = 0) {
  if (depth > 8 || !one || typeof one !== "object") return {};
  if (one.$ref) return resolve(one.$ref.replace(/^#\//, "").split("/").reduce((at, part) => at?.[part], root), root, depth + 1);
  const variants = one.anyOf ?? one.oneOf ?? (Array.isArray(one.type) ? one.type.map((type) => ({ ...one, type })) : null);
  if (!variants) return one;
  const rest = variants.filter((variant) => variant.type !== "null");
  if (rest.length !== 1) return { description: one.description };
  return { ...resolve(rest[0], root, depth + 1), isNullable: rest.length < variants.length };
}

function bounds({ minimum, maximum, minLength, maxLength, pattern, format }) {
  const parts = [minimum !== undefined && `at least ${minimum}`, maximum !== undefined && `at most ${maximum}`, minLength && `${minLength} or more characters`, maxLength && `up to ${maxLength} characters`, format && `a ${format}`, pattern && `like ${pattern}`];
  return parts.filter(Boolean).join(", ");
}

function example(kind, one, raw) {
  const found = raw.examples?.[0] ?? one.examples?.[0];
  if (found !== undefined) return typeof found === "string" ? found : JSON.stringify(found);
  if (kind !== "json") return kind === "string" ? "text" : kind === "integer" ? "whole number" : "number";
  return one.type === "array" ? '["…"]' : one.type === "object" ? '{"…": "…"}' : "JSON";
}

// The arguments in the fields; empty optional fields are left out. Raises an Error with a sentence.
function readArguments(fields, values) {
  const found = {};
  for (const { name, kind, choices, isRequired } of fields) {
    const text = values[name] ?? "";
    if (text === "" && !isRequired) continue;
    if (choices) found[name] = choices[Number(text)];
    else if (kind === "string") found[name] = text;
    else if (kind === "json") found[name] = readJson(name, text);
    else if (text.trim() === "" || Number.isNaN(Number(text))) throw new Error(`${name}: “${text}” is not a number.`);
    else found[name] = Number(text);
  }
  return found;
}

function readJson(name, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name}: this is not JSON. Write for example ["a", 1] or {"key": "value"}.`);
  }
}
