/** The daemon's error response to an upload. */
export interface Problem {
  detail: string;
  code?: string;
  findings?: readonly Finding[];
}

export interface Finding {
  /** Absent for problems that the browser found. */
  code?: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}

const around = 3;

/** The next steps for findings about files of the manifest. */
const fixes: Partial<Record<string, string>> = {
  file_missing: 'Add the file, or remove this entry from the manifest.',
  size_mismatch: 'Correct the size in the manifest, or replace the file.',
  digest_mismatch: 'Correct the digest in the manifest, or replace the file.',
};

interface Refused {
  /** The text of the manifest; null if it is not known. */
  manifest: string | null;
  /** The archive or directory that was refused; empty if it is not known. */
  name: string;
}

/**
 * Shows an error and its findings. A finding about a line of the manifest is shown next to that line, and the
 * others are listed. For security, this only creates text nodes and never HTML.
 */
export function showProblem(
  place: HTMLElement,
  { detail, code, findings = [] }: Problem,
  { manifest, name }: Refused = { manifest: null, name: '' },
): void {
  const notice = element('div', 'notice failure');
  const count = findings.length;
  const isRefused = code !== undefined && count > 0;
  const mistakes = `${count} ${count === 1 ? 'mistake' : 'mistakes'} in ${name === '' ? 'the bundle' : name}`;
  notice.append(element('strong', '', isRefused ? `Not accepted: ${mistakes}` : detail));
  if (isRefused)
    notice.append(element('p', '', 'Nothing was published. Fix the bundle, then choose it again.'));
  const located = manifest === null ? [] : locate(manifest, findings);
  const list = element('ul', 'findings');
  for (const one of findings.filter((finding) => !located.some((other) => other.finding === finding))) {
    const item = element('li', '');
    const where = [one.file, one.line, one.column].filter((part) => part !== null).join(':');
    if (where !== '') item.append(element('span', 'place', where), element('br', ''));
    item.append(one.message, ...fixOf(one));
    list.append(item);
  }
  if (list.childElementCount > 0) notice.append(list);
  if (code !== undefined) {
    const details = element('details', 'small');
    const line = element('p', '', 'Code ');
    line.append(element('code', '', code));
    details.append(element('summary', '', 'Technical details'), line);
    notice.append(details);
  }
  place.replaceChildren(notice);
  if (manifest !== null && located.length > 0) place.append(manifestWith(manifest, located));
  notice.tabIndex = -1;
  notice.focus();
}

interface Located {
  finding: Finding;
  /** The number of a line of the manifest. */
  at: number;
}

function locate(manifest: string, findings: readonly Finding[]): Located[] {
  return findings.flatMap((finding) => {
    const isOfManifest = finding.file === null || finding.file === 'manifest.json';
    const at = (isOfManifest ? finding.line : null) ?? lineOf(manifest, finding);
    return at === null ? [] : [{ finding, at }];
  });
}

/** Shows the lines of the manifest that the findings are about, with some context. */
function manifestWith(manifest: string, located: readonly Located[]): HTMLElement {
  const lines = manifest.split('\n');
  const shown = new Set(
    located.flatMap(({ at }) => Array.from({ length: 2 * around + 1 }, (_, step) => at - around + step)),
  );
  const box = element('div', 'manifest');
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', 'The manifest');
  box.append(element('div', 'name', 'manifest.json'));
  let last = 0;
  for (const [index, text] of lines.entries()) {
    const number = index + 1;
    if (!shown.has(number)) continue;
    if (last !== 0 && number !== last + 1) box.append(element('div', 'number', '⋮'));
    last = number;
    const here = located.filter(({ at }) => at === number);
    const line = element('div', here.length > 0 ? 'wrong' : '');
    // The rest of a long line is below its text.
    const code = element('span', 'line-text', text);
    code.style.setProperty('--indent', `${text.search(/\S|$/) + 2}ch`);
    line.append(element('span', 'number', String(number)), code);
    for (const { finding } of here)
      line.append(element('span', 'says', messageOf(finding)), ...fixOf(finding));
    box.append(line);
  }
  return box;
}

function fixOf({ code }: Finding): HTMLElement[] {
  const fix = code === undefined ? undefined : fixes[code];
  return fix === undefined ? [] : [element('span', 'fix', fix)];
}

/** Names the file, which the line does not always do. */
function messageOf({ file, message }: Finding): string {
  return file === null || file === 'manifest.json' ? message : `${file} ${message}`;
}

/**
 * Finds the line in the manifest that a finding is about, by the path of its file. If the size or the digest
 * is wrong, it is the line of that. Returns null if there is none.
 */
function lineOf(manifest: string, { pointer, message }: Finding): number | null {
  const match = /^\/files\/(\d+)/.exec(pointer ?? '');
  if (match === null) return null;
  const { files } = safely(manifest);
  const file = files?.[Number(match[1])];
  const path = typeof file === 'string' ? file : file?.path;
  if (path === undefined) return null;
  const at = manifest.indexOf(JSON.stringify(path));
  if (at === -1) return null;
  const key = /\bbytes\b/.test(message) ? '"size"' : /\bdigest\b/.test(message) ? '"digest"' : null;
  const exact = typeof file === 'string' || key === null ? -1 : manifest.indexOf(key, at);
  const isInEntry = exact !== -1 && !manifest.slice(at, exact).includes('}');
  return manifest.slice(0, isInEntry ? exact : at).split('\n').length;
}

function safely(manifest: string): { files?: (string | { path?: string })[] } {
  try {
    return JSON.parse(manifest) as { files?: (string | { path?: string })[] };
  } catch {
    return {};
  }
}

function element(name: string, classes: string, text = ''): HTMLElement {
  const made = document.createElement(name);
  if (classes !== '') made.className = classes;
  made.textContent = text;
  return made;
}
