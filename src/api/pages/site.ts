import type { HttpPorts } from '../http/http-app.ts';
import { productVersion } from '../version.ts';

/** Settings that all pages of a daemon share. */
export interface Site {
  /** The path that all pages are below. Ends with `/`. */
  basePath: string;
  version: string;
  /** The parts of the site, in the order of the page header. */
  nav: readonly NavEntry[];
}

/** A part of the site, to be linked from the page header and the landing page. */
interface NavEntry {
  /** Pages use this to highlight their entry. */
  id: string;
  label: string;
  /** The path relative to the base path, without a leading slash: `console`. */
  path: string;
  /** A sentence for the landing page. Entries without one are not shown there. */
  about?: string;
}

/** The parts of the site, in the order of the navigation. Features with pages have to add theirs here. */
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
    about: 'Every request with its parameters and responses. Try them on the page.',
  },
];

interface SiteParts extends Pick<HttpPorts, 'http'> {
  console?: object | null;
  weather?: object | null;
}

/**
 * Returns the settings for this daemon's pages. Features that are not configured are left out of the
 * navigation.
 */
export function siteOf({ http, console, weather }: SiteParts): Site {
  const has: Readonly<Record<string, boolean>> = {
    console: console != null,
    runs: console != null,
    weather: weather != null,
  };
  const nav = parts.filter(({ id }) => has[id] ?? true);
  return { basePath: http.basePath, version: productVersion(), nav };
}
