/** Where the pages of the console are, below the base path. Ids come from outside, and are encoded. Pure. */
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
  events: () => 'console/events',
  login: () => 'console/login',
  logout: () => 'console/logout',
};

/** Where to log in, and come back from. Pure. */
export function loginPath(basePath: string, next: string): string {
  return `${basePath}${paths.login()}?${new URLSearchParams({ next }).toString()}`;
}

/**
 * Where somebody goes after the login: a page of the console, and never anywhere else, whatever the link to
 * the login said. Pure.
 */
export function afterLogin(basePath: string, next: string | null): string {
  const home = `${basePath}${paths.overview()}`;
  if (next === null || !/^[\x21-\x7e]{1,2000}$/.test(next) || next.includes('\\')) return home;
  const isOurs = next === home || next.startsWith(`${home}/`) || next.startsWith(`${home}?`);
  return isOurs && !next.startsWith(`${home}/log`) ? next : home;
}
