import type { HttpPorts } from '../http/app.ts';
import { productVersion } from '../version.ts';

/** Settings shared by all of a daemon's pages. */
export interface Site {
  /** The base path of all pages; ends with `/`. */
  basePath: string;
  version: string;
  /** The parts of the site, in page header order. */
  nav: readonly NavEntry[];
}

/** A part of the site. The page header and the landing page link to it. */
interface NavEntry {
  /** Used by pages to mark their part of the site. */
  id: string;
  label: string;
  /** Relative to the base path, without a leading slash, such as `console`. */
  path: string;
  /** A sentence for the landing page, which omits entries that have none. */
  about?: string;
}

/** The parts of the site, in navigation order. A feature with pages adds its line here. */
const parts: readonly NavEntry[] = [
  {
    id: 'console',
    label: 'Console',
    path: 'console',
    about: 'Failures, pipelines, runs and releases, live. Start, repeat and roll back.',
  },
  { id: 'runs', label: 'Runs', path: 'console/runs' },
  {
    id: 'weather',
    label: 'Weather',
    path: 'weather/',
    about: 'A map of stations, alerts and outlooks, and the weather at each station.',
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

/** Returns the settings shared by this daemon's pages. The navigation omits parts that are not configured. */
export function siteOf({ http, console, weather }: SiteParts): Site {
  const has: Readonly<Record<string, boolean>> = {
    console: console != null,
    runs: console != null,
    weather: weather != null,
  };
  const nav = parts.filter(({ id }) => has[id] ?? true);
  return { basePath: http.basePath, version: productVersion(), nav };
}
