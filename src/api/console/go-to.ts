import type { Visit } from './visit.ts';

/** To a page of the console: what was done is not done again when the page is loaded again. */
export function goTo<Params>({ res, parts }: Visit<Params>, path: string): void {
  res.redirect(303, `${parts.http.basePath}${path}`);
}
