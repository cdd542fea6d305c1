import type { HttpPorts } from './http/app.ts';
import type { NavEntry, Site } from './pages/site.ts';
import { productVersion } from './version.ts';

/** The parts of the site, in the order of the navigation. A feature with pages adds its line here. */
const parts: readonly NavEntry[] = [
  {
    id: 'docs',
    label: 'API',
    path: 'docs',
    about: 'Every request with its parameters and answers, to read and to try.',
  },
];

/** What all pages of this daemon have in common. */
export function siteOf({ http }: Pick<HttpPorts, 'http'>): Site {
  return { basePath: http.basePath, version: productVersion(), nav: parts };
}
