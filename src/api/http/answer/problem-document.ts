import type { ErrorCode } from '../../../core/lib/error-codes.ts';
import { describeFinding, type Finding } from '../../../core/lib/errors.ts';
import { xmlText, writeXml, type XmlNode } from '../../../core/lib/xml.ts';
import type { ProblemForm } from '../request/request-context.ts';

/**
 * An RFC 9457 problem document. `type` is `about:blank`, so `title` is the status phrase; `code` identifies
 * the error.
 */
export interface Problem {
  type: 'about:blank';
  title: string;
  status: number;
  /** What is wrong, and after a semicolon the hint, for whoever shows nothing else. */
  detail: string;
  /** What to do about it; left out where there is nothing to say. */
  hint?: string;
  /** The request's id, as in the log. */
  instance: string;
  code: ErrorCode;
  retryable: boolean;
  /** Everything that is wrong with the upload, for errors that can have several causes. */
  findings?: readonly Finding[];
}

/** The Content-Type of each form. */
export const problemMediaTypes: Readonly<Record<ProblemForm, string>> = {
  json: 'application/problem+json',
  xml: 'application/problem+xml; charset=utf-8',
  text: 'text/plain; charset=utf-8',
  html: 'text/html; charset=utf-8',
};

/** The forms that hold a problem alone; a page also has what all pages have, and is made by them. */
export type DocumentForm = Exclude<ProblemForm, 'html'>;

const writers: Readonly<Record<DocumentForm, (problem: Problem) => string>> = {
  json: (problem) => JSON.stringify(problem),
  xml: xmlOf,
  text: textOf,
};

/** The bytes of a problem document in one of its forms. Pure. */
export function problemBody(problem: Problem, form: DocumentForm): Buffer {
  return Buffer.from(writers[form](problem));
}

/** As in appendix B of RFC 9457, where an item of a list is an element `i`; what is null is left out. */
function xmlOf(problem: Problem): string {
  return writeXml({ problem: { '@xmlns': 'urn:ietf:rfc:7807', ...membersOf(problem) } });
}

function membersOf(members: object): Record<string, XmlNode> {
  return Object.fromEntries(
    Object.entries(members)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]: [string, unknown]) => [name, nodeOf(value)]),
  );
}

function nodeOf(value: unknown): XmlNode {
  if (Array.isArray(value)) return { i: value.map(nodeOf) };
  if (typeof value === 'object' && value !== null) return membersOf(value);
  return xmlText(String(value));
}

function textOf({ status, title, code, detail, findings = [], retryable, instance }: Problem): string {
  const lines = [
    `${status} ${title}: ${code}`,
    '',
    detail,
    ...(findings.length === 0 ? [] : ['', ...findings.map((one) => `- ${describeFinding(one)}`)]),
    ...(retryable ? ['', 'Sending the same again can help.'] : []),
    '',
    `Request ${instance}`,
  ];
  return `${lines.map(printable).join('\n')}\n`;
}

/** Names of parameters are repeated as they came. */
function printable(line: string): string {
  return line.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '?');
}
