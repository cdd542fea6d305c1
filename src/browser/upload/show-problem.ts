/** The daemon's error response to an upload. */
export interface Problem {
  detail: string;
  code?: string;
  findings?: readonly Finding[];
}

export interface Finding {
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}

const around = 3;

/**
 * Shows an error and its findings, each one next to the line in the manifest that it is about. For security,
 * this only creates text nodes and never HTML.
 */
export function showProblem(
  place: HTMLElement,
  { detail, code, findings = [] }: Problem,
  manifest: string | null,
): void {
  const notice = element('div', 'notice failure');
  // The findings are listed below, so just say how many there are.
  const count = findings.length;
  const isRefused = code !== undefined && count > 0;
  const head = isRefused ? `Not accepted: ${count} ${count === 1 ? 'finding' : 'findings'}` : detail;
  notice.append(element('strong', '', head));
  const list = element('ul', 'findings');
  for (const one of findings) {
    const item = element('li', '');
    const where = [one.file, one.line, one.column].filter((part) => part !== null).join(':');
    if (where !== '') item.append(element('span', 'place', where), element('br', ''));
    item.append(one.message);
    list.append(item);
  }
  notice.append(list);
  if (isRefused)
    notice.append(element('p', 'small', 'Nothing was published. Fix the bundle, then choose it again.'));
  if (code !== undefined) notice.append(element('code', 'small', code));
  place.replaceChildren(notice);
  if (manifest !== null) place.append(manifestWith(manifest, findings));
  notice.tabIndex = -1;
  notice.focus();
}

/** Shows the lines of the manifest that the findings are about, with some context. */
function manifestWith(manifest: string, findings: readonly Finding[]): HTMLElement {
  const lines = manifest.split('\n');
  const located = findings
    .map((one) => ({ ...one, at: one.line ?? lineOf(manifest, one.pointer) }))
    .filter(({ at }) => at !== null);
  const shown = new Set(
    located.flatMap(({ at }) =>
      Array.from({ length: 2 * around + 1 }, (_, step) => (at ?? 0) - around + step),
    ),
  );
  const box = element('div', 'manifest');
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', 'The manifest');
  let last = 0;
  for (const [index, text] of lines.entries()) {
    const number = index + 1;
    if (!shown.has(number)) continue;
    if (last !== 0 && number !== last + 1) box.append(element('div', 'number', '⋮'));
    last = number;
    const here = located.filter(({ at }) => at === number);
    const line = element('div', here.length > 0 ? 'wrong' : '');
    line.append(element('span', 'number', String(number)), text);
    for (const one of here) line.append(element('span', 'says', one.message));
    box.append(line);
  }
  return box;
}

/**
 * Finds the line in the manifest that a finding is about, by the path of its file. Returns null if there is
 * none.
 */
function lineOf(manifest: string, pointer: string | null): number | null {
  const match = /^\/files\/(\d+)/.exec(pointer ?? '');
  if (match === null) return null;
  const { files } = safely(manifest);
  const file = files?.[Number(match[1])];
  const path = typeof file === 'string' ? file : file?.path;
  if (path === undefined) return null;
  const at = manifest.indexOf(JSON.stringify(path));
  return at === -1 ? null : manifest.slice(0, at).split('\n').length;
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
