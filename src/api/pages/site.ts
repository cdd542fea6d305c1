import type { HttpPorts } from '../http/app.ts';
import { productVersion } from '../version.ts';

/** What all pages of one daemon have in common. */
export interface Site {
  /** Below which everything is; ends with `/`. */
  basePath: string;
  version: string;
  /** In the order in which the head of every page shows them. */
  nav: readonly NavEntry[];
}

/** A part of the site that the head of every page and the landing page lead to. */
interface NavEntry {
  /** By which a page says that it belongs to it. */
  id: string;
  label: string;
  /** Below the base path, without a slash at its beginning: `console`. */
  path: string;
  /** A sentence for the landing page. */
  about: string;
}

/** The parts of the site, in the order of the navigation. A feature with pages adds its line here. */
const parts: readonly NavEntry[] = [
  {
    id: 'console',
    label: 'Console',
    path: 'console',
    about: 'Pipelines, their runs and destinations, live: to follow, and to act on.',
  },
  {
    id: 'weather',
    label: 'Weather',
    path: 'weather/',
    about: 'A map of stations, alerts and outlooks, and what each station says.',
  },
  {
    id: 'docs',
    label: 'API',
    path: 'docs',
    about: 'Every request with its parameters and answers, to read and to try.',
  },
];

interface SiteParts extends Pick<HttpPorts, 'http'> {
  console?: object | null;
  weather?: object | null;
}

/** What all pages of this daemon have in common; the weather only where a database is configured. */
export function siteOf({ http, console, weather }: SiteParts): Site {
  const has: Readonly<Record<string, boolean>> = { console: console != null, weather: weather != null };
  const nav = parts.filter(({ id }) => has[id] ?? true);
  return { basePath: http.basePath, version: productVersion(), nav };
}
