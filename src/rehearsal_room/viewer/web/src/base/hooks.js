// Small hooks: loading a path, the width of an element, keys of a page.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { presence } from "./presence.js";
import { get } from "./source.js";

// { data, error, isLoading, reload } of a path. The former data stays until the new data is there;
// null as a path loads nothing. When a lost server is back, it is loaded again.
export function useLoad(path) {
  const [state, setState] = useState({});
  const [round, setRound] = useState(0);
  const { times } = presence.value;
  useEffect(() => {
    if (!path) return undefined;
    let isWanted = true;
    get(path).then(
      (data) => isWanted && setState({ path, data }),
      (error) => isWanted && setState({ path, error: error.message }),
    );
    return () => {
      isWanted = false;
    };
  }, [path, round, times]);
  const reload = useCallback(() => setRound((one) => one + 1), []);
  return { data: state.data, error: state.error, isLoading: state.path !== path, reload };
}

// { data, error } of a path that is asked again and again while `hasMore(data)`.
export function usePolled(path, hasMore, everyMs = 600) {
  const [state, setState] = useState({});
  useEffect(() => {
    let timer, isOver = false;
    const look = async () => {
      try {
        const data = await get(path);
        if (isOver) return;
        setState({ data });
        if (hasMore(data)) timer = setTimeout(look, everyMs);
      } catch (error) {
        if (!isOver) setState((now) => ({ ...now, error: error.message }));
      }
    };
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [path]);
  return state;
}

// [ref, width in pixels] of an element.
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!ref.current) return undefined;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

// A ref for a bar that sticks under the head. Its height is `--bar` in the styles, so that what sticks
// or is scrolled to stands below it. A turn in focus stays in view when the bar grows.
export function useBarHeight() {
  const ref = useRef(null);
  useEffect(() => {
    const { style } = document.documentElement;
    const watch = new ResizeObserver(() => {
      const bar = ref.current;
      if (!bar) return;
      style.setProperty("--bar", `${bar.offsetHeight}px`);
      const { bottom } = bar.getBoundingClientRect();
      const { top } = document.activeElement?.closest(".turn")?.getBoundingClientRect() ?? { top: bottom };
      if (scrollY > 0 && top > 0 && top < bottom) scrollBy({ top: top - bottom - 12, behavior: "instant" });
    });
    watch.observe(ref.current);
    return () => {
      watch.disconnect();
      style.removeProperty("--bar");
    };
  }, []);
  return ref;
}

// The newest value of a variable, for handlers that are registered once.
export function useLatest(value) {
  const ref = useRef(value);
  ref.current = value;
  return ref;
}

export function useTitle(...parts) {
  const title = [...parts.filter(Boolean), "Rehearsal"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
