// What all views share.
import { signal } from "@preact/signals";

export const about = signal(null); // the answer of /api/about
export const canDo = (name) => Boolean(about.value && !about.value.exported && about.value.can[name]);
