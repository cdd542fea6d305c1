/*
 * What an action tells on the page that follows it: a word of this list in the query, so that nobody can put
 * a text of their own on a page, and nothing has to be stored.
 */
const messages = {
  cancelled: 'The run is being cancelled.',
  retry: 'The run is tried now.',
  rerun: 'The run is repeated: this is the new one.',
  started: 'The run is accepted.',
  replayed: 'This run was accepted before.',
  paused: 'The pipeline is paused: no run of it begins.',
  resumed: 'The pipeline goes on.',
  reloaded: 'The configuration of the file is in force.',
  promoted: 'Readers have this release now.',
  rolled_back: 'Rolled back: readers have this release now.',
  uploaded: 'The bundle is complete and valid, and its run is accepted.',
  redelivered: 'The undelivered events were sent again.',
  logged_out: 'You are logged out.',
} as const;
export type Flash = keyof typeof messages;

/** The path with what it is to tell. Pure. */
export function withFlash(path: string, flash: Flash): string {
  return `${path}${path.includes('?') ? '&' : '?'}done=${flash}`;
}

/** Null if the query tells nothing, or nothing that is known. Pure. */
export function flashOf(url: string): string | null {
  const done = new URL(url, 'http://localhost').searchParams.get('done') ?? '';
  return Object.hasOwn(messages, done) ? messages[done as Flash] : null;
}
