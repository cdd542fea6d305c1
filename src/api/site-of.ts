import type { HttpPorts } from './http/app.ts';
import type { NavEntry, Site } from './pages/site.ts';
import { productVersion } from './version.ts';

/** The parts of the site, in the order of the navigation. A feature with pages adds its line here. */
const parts: readonly NavEntry[] = [
  {
    id: 'console',
    label: 'Console',
    path: 'console',
    about: 'Pipelines, their runs and destinations, live: to follow, and to act on.',
  },
  {
    id: 'docs',
    label: 'API',
    path: 'docs',
    about: 'Every request with its parameters and answers, to read and to try.',
  },
];

/** What all pages of this daemon have in common. */
export function siteOf({ http, console }: Pick<HttpPorts, 'http'> & { console?: object | null }): Site {
  const nav = parts.filter(({ id }) => id !== 'console' || console != null);
  return { basePath: http.basePath, version: productVersion(), nav };
}
