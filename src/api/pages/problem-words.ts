import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Problem } from '../http/answer/problem.ts';

/** The text of an error page, written for people who followed a link or submitted a form. */
export interface ProblemWords {
  heading: string;
  text: string;
  /** The entry of the navigation that leads on. The default is the first one. */
  next?: string;
}

/** The text if the address names the thing that is missing. The name is in backticks. */
interface NamedWords {
  /** Finds the name in a path. */
  name: RegExp;
  text: (name: string) => string;
}

/** A name that is safe to repeat in a sentence. */
const plainName = '([\\w.-]{1,64})';
const byName: Partial<Record<ErrorCode, NamedWords>> = {
  run_not_found: {
    name: new RegExp(`/runs/${plainName}(?:/|$)`),
    text: (name) => `Run \`${name}\` does not exist, or its record has expired.`,
  },
  pipeline_not_found: {
    name: new RegExp(`/pipelines/${plainName}(?:/|$)`),
    text: (name) => `No pipeline is called \`${name}\`. It may have been renamed or removed.`,
  },
  destination_not_found: {
    name: new RegExp(`/destinations/${plainName}(?:/|$)`),
    text: (name) => `The pipeline has no destination \`${name}\`. It may have been renamed or removed.`,
  },
  station_not_found: {
    name: new RegExp(`/stations/${plainName}$`),
    text: (name) =>
      `No weather station is called \`${name}\`. Enter a code such as \`KNYC\`, or the start of a name.`,
  },
};

const byCode: Partial<Record<ErrorCode, ProblemWords>> = {
  run_not_found: {
    heading: 'Run not found',
    text: 'This run does not exist, or its record has expired.',
    next: 'runs',
  },
  station_not_found: {
    heading: 'Station not found',
    text: 'No weather station has this name. Enter a code such as `KNYC`, or the start of a name.',
    next: 'weather',
  },
  pipeline_not_found: {
    heading: 'Pipeline not found',
    text: 'No pipeline has this name. It may have been renamed or removed.',
  },
  destination_not_found: {
    heading: 'Destination not found',
    text: 'The pipeline has no destination of this name. It may have been renamed or removed.',
  },
  release_not_found: {
    heading: 'Release not found',
    text: 'This release does not exist. Old releases are removed after some time.',
  },
  not_published: { heading: 'Not published', text: 'Nothing is published at this path.' },
  form_expired: {
    heading: 'This form has expired',
    text: 'Nothing was changed. Go back, reload the page and send the form again.',
  },
  queue_unavailable: {
    heading: 'Temporarily unavailable',
    text: 'The server cannot reach its queue. Reload this page in a minute.',
  },
  destination_unavailable: {
    heading: 'Destination unavailable',
    text: 'The server cannot reach the destination. Reload this page in a minute.',
  },
};

/** The names of the console's pages and actions, by their paths. The first match counts. */
const consolePlaces: readonly [path: RegExp, name: (id: string) => string][] = [
  [/\/console\/admin\/reload$/, () => 'Reload configuration'],
  [/\/console\/admin(?:\/|$)/, () => 'Daemon'],
  [/\/console\/audit$/, () => 'Audit trail'],
  [new RegExp(`/console/pipelines/${plainName}/upload$`), (id) => `Upload to ${id}`],
  [new RegExp(`/console/pipelines/${plainName}/plan(?:/|$)`), (id) => `Plan of ${id}`],
  [new RegExp(`/console/pipelines/${plainName}/pause$`), (id) => `Pause ${id}`],
  [new RegExp(`/console/pipelines/${plainName}/resume$`), (id) => `Resume ${id}`],
  [new RegExp(`/console/pipelines/${plainName}(?:/|$)`), (id) => `Pipeline ${id}`],
];

/** Returns the name of the page or the action at a path of the console; null if it has none. */
export function consolePlaceOf(path: string): string | null {
  for (const [pattern, nameOf] of consolePlaces) {
    const found = pattern.exec(path);
    if (found !== null) return nameOf(found[1] ?? '');
  }
  return null;
}

/** Returns the heading for a page or an action that is forbidden, such as `You may not pause maps`. */
export function refusalOf(place: string): string {
  const isAction = /^(?:Pause|Resume|Reload|Upload) /.test(place);
  return `You may not ${isAction ? `${place.charAt(0).toLowerCase()}${place.slice(1)}` : `open ${place}`}`;
}

const byStatus: Readonly<Record<number, ProblemWords>> = {
  400: {
    heading: 'This request is invalid',
    text: 'The address or the form has a value that is not allowed.',
  },
  401: { heading: 'Log in first', text: 'Your session has ended, or you are not logged in.' },
  403: {
    heading: 'No permission',
    text: 'The administrator of this server decides which token or role may do this.',
  },
  404: { heading: 'Page not found', text: 'Nothing is at this address. The link may be old or mistyped.' },
  405: { heading: 'Not possible here', text: 'This address does not accept that kind of request.' },
  409: {
    heading: 'Not possible now',
    text: 'The current state does not permit this. Reload the page first.',
  },
  413: { heading: 'Too large', text: 'The server does not accept this much data at once.' },
  429: { heading: 'Too many requests', text: 'Wait a moment, then try again.' },
  503: { heading: 'Temporarily unavailable', text: 'The server is busy or stopping. Try again in a minute.' },
};

const fallback: ProblemWords = {
  heading: 'Something went wrong',
  text: 'The server failed to answer. Try again. If it fails again, report the request id to its administrator.',
};

/** Reports whether the text is specific to this error code, so that it is a reason by itself. */
export function hasOwnWords(code: ErrorCode): boolean {
  return byCode[code] !== undefined;
}

/** Returns the text for an error code, with the name of the missing thing that is in `path`, if any. */
export function namedWordsOf(
  problem: Pick<Problem, 'code' | 'status' | 'title'>,
  path: string,
): ProblemWords & { name: string | null } {
  const words = wordsOf(problem);
  const named = byName[problem.code];
  const name = named?.name.exec(path)?.[1] ?? null;
  return named === undefined || name === null
    ? { ...words, name }
    : { ...words, text: named.text(name), name };
}

/** Returns the text for an error code. If there is none, returns the text for its status. */
export function wordsOf({ code, status, title }: Pick<Problem, 'code' | 'status' | 'title'>): ProblemWords {
  const known = byCode[code] ?? byStatus[status];
  if (known !== undefined) return known;
  return status >= 500 ? fallback : { heading: title, text: 'The server did not accept this request.' };
}
