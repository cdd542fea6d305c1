import { errorTable, type ErrorRecord } from './errors.ts';
import type { Finding } from './finding.ts';

/**
 * An error as anyone may read it, in a run record that needs no token: paths of this machine become `<path>`,
 * and `internal_error` keeps nothing but its general description. The log has the original under the same run
 * id. Pure.
 */
export function publicError(error: ErrorRecord): ErrorRecord {
  if (error.code === 'internal_error') {
    return { ...error, message: errorTable.internal_error.about, hint: null, findings: [] };
  }
  return {
    ...error,
    message: withoutPaths(error.message),
    hint: error.hint === null ? null : withoutPaths(error.hint),
    findings: error.findings.map(publicFinding),
  };
}

/** A finding as anyone may read it. Pure. */
export function publicFinding(finding: Finding): Finding {
  return {
    ...finding,
    message: withoutPaths(finding.message),
    file: finding.file === null ? null : withoutPaths(finding.file),
  };
}

// A quoted path may contain spaces; a bare one ends at the first. A slash inside a word, a URL or a relative
// path does not begin a path, and what comes after a method of HTTP is asked for over HTTP.
const quotedPath = /(["'`])(?:\/|~\/|[A-Za-z]:\\)[^"'`]*\1/g;
const barePath = /(?<![\w:/.~%-]|\b(?:GET|HEAD|POST|PATCH|DELETE) )(?:\/|~\/)[^\s"'`,;:)\]}]+/g;

/** The text with every absolute path replaced by `<path>`. */
export function withoutPaths(text: string): string {
  return text.replaceAll(quotedPath, '$1<path>$1').replaceAll(barePath, '<path>');
}
