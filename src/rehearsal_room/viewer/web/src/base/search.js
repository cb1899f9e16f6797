// The syntax of a text search (viewer/index/search.py has its description and the server's side).
//
//   late refund OR "gift card" -ok  ->  [{ words: [late] }, { words: [refund, "gift card"] }, { words: [ok], isNot }]

const PART = /(-?)((?:tool:)?)(?:"([^"]*)("?)|([^\s"]+))/g;
const MOST = { characters: 1000, words: 32 };

// The clauses of a search; throws an Error whose message says what cannot be read, and where.
export function clausesOf(text) {
  if (text.length > MOST.characters) throw new Error(`text: a search has at most ${MOST.characters} characters, and this one ${text.length}`);
  const clauses = [];
  let joins = 0;
  let count = 0;
  for (const part of text.matchAll(PART)) {
    const place = part.index + 1;
    if (part[0] === "OR") {
      if (joins || clauses.length === 0 || clauses.at(-1).isNot) throw new Error(`text: OR at character ${place} needs a word before it`);
      joins = place;
      continue;
    }
    const word = wordOf(part, place);
    const isNot = part[1] === "-";
    count += 1;
    if (joins && isNot) throw new Error(`text: OR at character ${joins} cannot be followed by a minus`);
    if (joins) clauses.at(-1).words.push(word);
    else clauses.push({ words: [word], isNot });
    joins = 0;
  }
  if (joins) throw new Error(`text: OR at character ${joins} needs a word after it`);
  if (count > MOST.words) throw new Error(`text: a search has at most ${MOST.words} words, and this one ${count}`);
  return clauses;
}

function wordOf([, , tool, phrase, closing, word], place) {
  const isPhrase = phrase !== undefined;
  if (isPhrase && !closing) throw new Error(`text: the quote at character ${place} is not closed`);
  const text = isPhrase ? phrase : word.replace(/\*$/, "");
  if (!isPhrase && text.includes("*")) throw new Error(`text: the * in '${word}' at character ${place} is not at the end of the word; words match from their beginning`);
  const tokens = tokensOf(text);
  if (tokens.length === 0) throw new Error(`text: there is nothing to search for at character ${place}: only letters and digits are indexed`);
  return { text, tokens, isPhrase, isOfTool: Boolean(tool) };
}

const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const tokensOf = (text) => fold(text).match(/[\p{L}\p{N}]+/gu) ?? [];

// Whether an episode, as [{ turn, place, text }], fulfils a search.
export function fulfils(clauses, id, places) {
  const all = { false: joined(places), true: joined(places.filter((one) => one.place === "result")) };
  return clauses.every(({ words, isNot }) => isNot !== words.some((word) => all[word.isOfTool].includes(needle(word)) || isId(word, id)));
}

const joined = (places) => ` ${places.map((one) => tokensOf(one.text).join(" ")).join(" ")} `;
const needle = ({ tokens, isPhrase }) => ` ${tokens.join(" ")}${isPhrase ? " " : ""}`;
const isId = (word, id) => !word.isPhrase && !word.isOfTool && /\d/.test(word.text) && id.startsWith(word.text);

const AROUND = 60; // characters

// The first place with the most words: { turn, place, snippet: [text, found, text, …] }; null: none.
export function hitIn(clauses, places) {
  const words = clauses.filter((one) => !one.isNot).flatMap((one) => one.words);
  let best = null;
  for (const one of places) {
    const found = words.filter((word) => (!word.isOfTool || one.place === "result") && ` ${tokensOf(one.text).join(" ")} `.includes(needle(word)));
    if (found.length > (best?.n ?? 0)) best = { n: found.length, one, word: found[0] };
  }
  if (!best) return null;
  const { text, turn, place } = best.one;
  const at = Math.max(0, fold(text).indexOf(best.word.tokens[0]));
  const end = at + (text.slice(at).match(/^[\p{L}\p{N}\p{M}]+/u)?.[0].length ?? best.word.tokens[0].length);
  const cut = at > AROUND ? `…${text.slice(at - AROUND, at)}` : text.slice(0, at);
  return { turn, place, snippet: [cut, text.slice(at, end), text.slice(end, end + AROUND)], num_places: 1 };
}
