// What agents and worlds wrote, made safe to look at: characters that hide or move text are shown.
//
//   "a\u001b[31mb" -> "a␛[31mb"      "a\u202eb" -> "a⟨U+202E⟩b"

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\u{e0001}|[\u{e0020}-\u{e007f}]/gu;

function shown(letter) {
  const code = letter.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

export function visible(text) {
  return String(text).replace(/\r\n/g, "\n").replace(HIDDEN, shown);
}

// A value of a cell as one text.
export function cellText(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return visible(shortJson(value));
  return visible(value);
}

function shortJson(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return "(too deep to be shown)";
  }
}

export function prettyJson(value) {
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    return "(too deep to be shown)";
  }
}
