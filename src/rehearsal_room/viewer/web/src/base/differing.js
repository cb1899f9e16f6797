// What differs in two values of a row. Suites keep whole records as JSON: of those only the parts that
// differ are wanted, since the rest fills the cell and hides them.
//
//   parts("value", '{"id": 1, "status": "open"}', '{"id": 1, "status": "shut"}')
//     -> [{ name: "value.status", before: "open", after: "shut" }]
//   parts("value", '{"id": 1}', '{"id": 1, "due": null}')
//     -> [{ name: "value.due", before: undefined, after: null }]        undefined: there is no such part

const DEEPEST = 12;
const LONGEST = 500_000; // characters of JSON that are read
const LEAD = 24; // characters that stay before the first difference of two long texts
const LONG = 100;

export function parts(name, before, after, depth = 0) {
  const [a, b] = [inner(before), inner(after)];
  if (depth < DEEPEST && a && b && Array.isArray(a) === Array.isArray(b)) {
    const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((one) => !isSame(of(a, one), of(b, one)));
    if (names.length > 0) return names.flatMap((one) => parts(`${name}.${one}`, of(a, one), of(b, one), depth + 1));
  }
  return [{ name, ...fromTheDifference(before, after) }];
}

const of = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);

function isSame(a, b) {
  try {
    return JSON.stringify(a) === JSON.stringify(b);
  } catch {
    return false; // too deep
  }
}

// The object or list that a value is, or that its text is; null: it is something else.
function inner(value) {
  if (value !== null && typeof value === "object") return value;
  if (typeof value !== "string" || value.length > LONGEST || !/^\s*[[{]/.test(value)) return null;
  try {
    return JSON.parse(value);
  } catch {
    return null;
  }
}

// Two long texts (or values, as texts) without what they begin with alike.
function fromTheDifference(before, after) {
  const [a, b] = [textOf(before), textOf(after)];
  if (a === null || b === null || Math.max(a.length, b.length) <= LONG) return { before, after };
  let same = 0;
  while (same < a.length && a[same] === b[same]) same++;
  const from = same - LEAD;
  return from <= LEAD ? { before, after } : { before: `…${a.slice(from)}`, after: `…${b.slice(from)}` };
}

// null: it is no text, and no object or list that can be written as one.
function textOf(value) {
  if (typeof value === "string") return value;
  if (value === null || typeof value !== "object") return null;
  try {
    return JSON.stringify(value);
  } catch {
    return null;
  }
}
