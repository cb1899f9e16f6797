// What the reader chose (theme, keys), kept in the browser where that is allowed.

export function load(name) {
  try {
    return localStorage.getItem(`rehearsal.${name}`);
  } catch {
    return null;
  }
}

export function store(name, value) {
  try {
    localStorage.setItem(`rehearsal.${name}`, value);
  } catch {
    // A file that was opened from disk may not store anything.
  }
}
