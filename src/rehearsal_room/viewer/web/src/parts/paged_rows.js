// Rows of a list that the server gives in pages: those around what is visible are kept.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useLatest } from "../base/hooks.js";
import { get } from "../base/source.js";

const SIZE = 100;
const KEPT = 12; // pages
let counter = 0; // of requests

// { total, rowAt, onRange, error, patch, refresh, numMore } of a path that takes offset and limit.
export function usePagedRows(path) {
  const [state, setState] = useState({ total: 0, round: 0 });
  const pages = useRef(new Map());
  const wanted = useRef([0, 1]);
  const current = useRef(path);
  current.current = path;

  const newest = useRef(0); // answers that are older than one that has come are dropped
  const ask = useCallback(async (number) => {
    const asked = current.current;
    const order = ++counter;
    pages.current.set(number, { rows: pages.current.get(number)?.rows, isAsked: true });
    const mark = asked.includes("?") ? "&" : "?";
    try {
      const found = await get(`${asked}${mark}offset=${number * SIZE}&limit=${SIZE}`);
      if (asked !== current.current) return;
      pages.current.set(number, { rows: found.rows });
      forget(pages.current, number);
      const isNew = order > newest.current;
      newest.current = Math.max(newest.current, order);
      setState((one) => ({ total: isNew ? found.total : one.total, round: one.round + 1, extra: found, path: asked }));
    } catch (error) {
      if (asked === current.current) setState({ total: 0, round: 0, error: error.message, path: asked });
    }
  }, []);
  const need = useCallback(() => {
    const [first, last] = wanted.current;
    for (let number = Math.floor(first / SIZE); number <= Math.floor(Math.max(first, last - 1) / SIZE); number++) {
      const page = pages.current.get(number);
      if (!page || page.isStale) ask(number);
    }
  }, [ask]);
  useEffect(() => {
    pages.current = new Map();
    wanted.current = [0, 1];
    ask(0);
  }, [path, ask]);

  const onRange = useCallback((first, last) => {
    wanted.current = [first, last];
    if (pages.current.size) need();
  }, [need]);
  const rowAt = (i) => pages.current.get(Math.floor(i / SIZE))?.rows?.[i % SIZE];
  // Replace known rows in their places.
  const patch = (rows, key) => {
    const fresh = new Map(rows.map((row) => [row[key], row]));
    for (const page of pages.current.values()) {
      page.rows?.forEach((row, i) => {
        const newer = fresh.get(row[key]);
        if (newer) page.rows[i] = newer;
      });
    }
    setState((one) => ({ ...one, round: one.round + 1 }));
  };
  const refresh = () => {
    for (const page of pages.current.values()) page.isStale = true;
    need();
  };
  const shown = useLatest(state);
  // How many more rows there are by now than are shown; 0 where a server is lost or the path was left.
  const numMore = async () => {
    const { total } = await get(`${path}${path.includes("?") ? "&" : "?"}offset=0&limit=1`).catch(() => ({ total: 0 }));
    return shown.current.path === path && current.current === path ? Math.max(0, total - shown.current.total) : 0;
  };
  const isLoading = state.path !== path;
  return { total: state.total, extra: state.extra, rowAt, onRange, error: state.error, patch, refresh, numMore, isLoading };
}

function forget(pages, near) {
  const far = [...pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
  for (const number of far.slice(0, Math.max(0, pages.size - KEPT))) pages.delete(number);
}
