import { describeFinding } from '../../core/lib/errors.ts';
import type { ProblemPage } from '../http/problem.ts';
import { pageHeaders } from './page-policy.ts';
import { renderPage } from './render-page.ts';
import type { Site } from './site.ts';

/** A refusal as a page: the same code, status, hint and request id as the JSON document has. */
export function problemPage(site: Site): ProblemPage {
  return ({ title, status, code, detail, hint, instance, retryable, findings = [] }) => {
    // The document has both in one sentence, for whoever shows nothing else.
    const message = hint === undefined ? detail : detail.slice(0, -`; ${hint}`.length);
    const html = renderPage(site, {
      title: `${status} ${title}`,
      template: 'pages/problem',
      view: {
        ...{ title, status, code, message, hint: hint ?? null, retryable },
        requestId: instance.replace(/^urn:uuid:/, ''),
        findings: findings.map(describeFinding),
      },
    });
    return { html, headers: pageHeaders };
  };
}
