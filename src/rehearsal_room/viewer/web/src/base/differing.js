// What differs in two values of a row. Suites keep whole records as JSON: of those only the parts that
// differ are wanted, since the rest fills the cell and hides them.
//
//   parts("value", '{"id": 1, "status": "open"}', '{"id": 1, "status": "shut"}')
//     -> [{ name: "value.status", before: "open", after: "shut" }]
//   parts("value", '{"id": 1}', '{"id": 1, "due": null}')
//     -> [{ name: "value.due", before: undefined, after: null }]        undefined: there is no such part
import { cellText } from "./text.js";

const DEEPEST = 12;
const LONGEST = 500_000; // characters of JSON that are read
const LEAD = 24; // characters that stay before the first difference of two long texts
const LONG = 100;

export function parts(name, before, after, depth = 0) {
  const [a, b] = [before, after].map(inner);
  if (depth < DEEPEST && a && b && Array.isArray(a) === Array.isArray(b)) {
    const names = Object.keys({ ...a, ...b }).filter((one) => JSON.stringify(own(a, one)) !== JSON.stringify(own(b, one)));
    if (names.length > 0) return names.flatMap((one) => parts(`${name}.${one}`, own(a, one), own(b, one), depth + 1));
  }
  return [{ name, ...fromTheDifference(before, after) }];
}

const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);

// The object or list that a value is, or that its text is; null: it is something else, or too deep.
function inner(value) {
  try {
    const found = typeof value === "string" && /^\s*[[{]/.test(value) && value.length < LONGEST ? JSON.parse(value) : value;
    return typeof found === "object" && JSON.stringify(found) ? found : null;
  } catch {
    return null;
  }
}

// Two long values without what their texts begin with alike.
function fromTheDifference(before, after) {
  const [a, b] = [before, after].map(cellText);
  let same = 0;
  while (same < a.length && a[same] === b[same]) same++;
  const from = same - LEAD;
  if (from <= LEAD || Math.max(a.length, b.length) <= LONG) return { before, after };
  return { before: `…${a.slice(from)}`, after: `…${b.slice(from)}` };
}
