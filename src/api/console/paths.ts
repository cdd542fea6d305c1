/**
 * The paths of the console's pages, relative to the base path. Ids come from users, so they are URL-encoded.
 */
const part = encodeURIComponent;

export const paths = {
  overview: () => 'console',
  runs: () => 'console/runs',
  run: (runId: string) => `console/runs/${part(runId)}`,
  pipeline: (id: string) => `console/pipelines/${part(id)}`,
  trends: (id: string) => `console/pipelines/${part(id)}/trends`,
  plan: (id: string) => `console/pipelines/${part(id)}/plan`,
  upload: (id: string) => `console/pipelines/${part(id)}/upload`,
  destination: (id: string, destination: string) =>
    `console/pipelines/${part(id)}/destinations/${part(destination)}`,
  open: (id: string, destination: string) =>
    `console/pipelines/${part(id)}/destinations/${part(destination)}/open`,
  releases: (id: string, destination: string) =>
    `console/pipelines/${part(id)}/destinations/${part(destination)}/releases`,
  admin: () => 'console/admin',
  audit: () => 'console/audit',
  events: () => 'console/events',
  login: () => 'console/login',
  loginStart: () => 'console/login/start',
  loginCallback: () => 'console/login/callback',
  logout: () => 'console/logout',
  account: () => 'console/account',
};

/** Adds a query to an address. Null values are omitted. */
export function withQuery(address: string, query: Readonly<Record<string, string | null>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== null);
  return given.length === 0 ? address : `${address}?${new URLSearchParams(given).toString()}`;
}

/** Returns the path of the login page, which redirects to `next` after login. */
export function loginPath(basePath: string, next: string): string {
  return `${basePath}${paths.login()}?${new URLSearchParams({ next }).toString()}`;
}

/** A placeholder for resolving paths the way browsers do. Any origin works. */
const origin = 'http://localhost';

/**
 * Returns the page to open after login. This is `next` if it belongs to the console, and the overview if not.
 * Without this check, a crafted login link could redirect to another site.
 */
export function afterLogin(basePath: string, next: string | null): string {
  const home = `${basePath}${paths.overview()}`;
  if (next === null || !/^[\x21-\x7e]{1,2000}$/.test(next) || next.includes('\\')) return home;
  // A path that changes when it is resolved contains something like `..`, which could escape the console.
  if (!URL.canParse(next, origin) || new URL(next, origin).href !== `${origin}${next}`) return home;
  const isOurs = next === home || next.startsWith(`${home}/`) || next.startsWith(`${home}?`);
  return isOurs && !next.startsWith(`${home}/log`) ? next : home;
}

/*
 * The messages shown after an action. The query string only contains the message's key, so messages need no
 * storage, and a crafted link cannot put arbitrary text on a page.
 */
const messages = {
  cancelled: 'The run is being cancelled.',
  retry: 'The run is tried now.',
  rerun: 'The run is repeated: this is the new one.',
  reruns: 'The runs are repeated. Their new runs are queued.',
  started: 'The run is accepted.',
  replayed: 'This run was accepted before.',
  paused: 'The pipeline is paused: accepted runs wait.',
  resumed: 'The pipeline is resumed.',
  reloaded: 'The configuration of the file is in force.',
  promoted: 'Promoted: readers have the chosen release now.',
  rolled_back: 'Rolled back: readers have the chosen release now.',
  uploaded: 'The bundle is complete and valid, and its run is accepted.',
  redelivered: 'The undelivered events were sent again.',
  logged_out: 'You are logged out.',
  logged_out_everywhere: 'You are logged out in all browsers.',
} as const;
type Flash = keyof typeof messages;

/** Adds a message's key to a path. */
export function withFlash(path: string, flash: Flash): string {
  return `${path}${path.includes('?') ? '&' : '?'}done=${flash}`;
}

/** Returns the message for the key in the URL's query, or null if the key is missing or unknown. */
export function flashOf(url: string): string | null {
  const done = new URL(url, 'http://localhost').searchParams.get('done') ?? '';
  return Object.hasOwn(messages, done) ? messages[done as Flash] : null;
}
