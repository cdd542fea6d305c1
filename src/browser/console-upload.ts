/*
 * Uploads to a pipeline from the browser: an archive, or a directory that is packed here. Shows the daemon's
 * findings at their places in the manifest. Without this script the form uploads an archive.
 */
import { hiddenNote, numberText, pathProblem, problemsOf } from './upload/check-files.ts';
import {
  type Chosen,
  filesOfDrop,
  filesOfInput,
  findManifest,
  manifestName,
  type NamedFile,
  type Packed,
  packFiles,
} from './upload/dropped-archive.ts';
import { type Finding, type Problem, showProblem } from './upload/show-problem.ts';

const form = document.querySelector<HTMLFormElement>('#upload');
if (form !== null) begin(form);

function begin(form: HTMLFormElement): void {
  const state = form.querySelector<HTMLElement>('#upload-state');
  const findings = document.querySelector<HTMLElement>('#upload-findings');
  const drop = form.querySelector<HTMLElement>('#drop');
  const archive = form.querySelector<HTMLInputElement>('#bundle');
  const directory = form.querySelector<HTMLInputElement>('#directory');
  const name = form.querySelector<HTMLInputElement>('#bundle-name');
  if (!state || !findings || !drop || !archive || !directory || !name) return;
  for (const part of form.querySelectorAll<HTMLElement>('[data-with-script]')) part.hidden = false;
  for (const part of form.querySelectorAll<HTMLElement>('[data-without-script]')) part.hidden = true;
  archive.classList.replace('input', 'unseen');
  archive.required = false;
  chooseChannel(form);
  const tell = (text: string): void => void (state.textContent = text);
  const limits = { maxBytes: Number(form.dataset['maxBytes']), maxFiles: Number(form.dataset['maxFiles']) };
  let files: readonly NamedFile[] = [];
  let choices = 0;
  const choose = async ({ files: some, directory }: Chosen): Promise<void> => {
    const choice = ++choices;
    files = [];
    findings.replaceChildren();
    const refusal = refusalOf(some);
    const manifest = refusal === null ? await manifestOf(some) : null;
    // Another choice was made while the manifest was read.
    if (choice !== choices) return;
    name.disabled = refusal === null && isNamed(some);
    name.value = name.disabled ? nameIn(manifest) : (directory ?? '');
    const problems =
      refusal === null ? problemsOf(some, { isArchive: isArchive(some), manifest, limits }) : [];
    if (problems.length > 0)
      showProblem(findings, { detail: 'Not ready to upload', findings: problems.map(plainFinding) }, null);
    else if (refusal === null) files = some;
    const note = refusal === null ? hiddenNote(some) : null;
    tell(refusal ?? [summaryOf(some, directory), ...(note === null ? [] : [note])].join('. '));
  };

  drop.addEventListener('dragover', (event) => {
    event.preventDefault();
    drop.classList.add('over');
  });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    drop.classList.remove('over');
    archive.value = '';
    void filesOfDrop(event.dataTransfer)
      .then(choose)
      .catch((error: unknown) => tell(String(error)));
  });
  directory.addEventListener('change', () => {
    archive.value = '';
    void choose(filesOfInput(directory));
  });
  archive.addEventListener('change', () => {
    const chosen = [...(archive.files ?? [])].map((file) => ({ path: file.name, file }));
    void choose({ files: chosen, directory: null });
  });
  let isPacked = false;
  form.addEventListener('submit', (event) => {
    const plan = event.submitter as HTMLButtonElement | null;
    // A plan is a page: the browser submits the form with the packed archive.
    if (isPacked) return;
    event.preventDefault();
    if (files.length === 0) {
      if (state.textContent === '') tell('Choose a directory or an archive first.');
      return;
    }
    const wrong = name.disabled || name.value === '' ? null : pathProblem(name.value);
    if (wrong !== null) {
      showProblem(findings, { detail: 'Not ready to upload', findings: [plainFinding(wrong)] }, null);
      return;
    }
    const sending =
      plan?.formAction.includes('dry_run') === true
        ? packed(files, name.value).then(({ body }) => {
            isPacked = true;
            submitWith(form, plan, archive, body);
          })
        : upload(form, files, { name: name.value, tell, findings });
    void sending.catch((error: unknown) => tell(String(error)));
  });
}

/** Why these files cannot be sent; null if they can. */
function refusalOf(files: readonly NamedFile[]): string | null {
  const [first, ...others] = files;
  if (first === undefined) return 'There are no files in it.';
  return others.length === 0 && /\.(zip|7z|rar)$/i.test(first.path)
    ? `${first.path} is not a tar archive. Unpack it, then choose the directory.`
    : null;
}

function summaryOf(files: readonly NamedFile[], directory: string | null): string {
  const bytes = numberText(files.reduce((sum, { file }) => sum + file.size, 0));
  const count = files.length === 1 ? (files[0]?.path ?? '') : `${numberText(files.length)} files`;
  return `${directory === null ? '' : `${directory}: `}${count}, ${bytes} bytes`;
}

function plainFinding(message: string): Finding {
  return { message, file: null, pointer: null, line: null, column: null };
}

/** The text of the manifest; null if there is none, or if the archive cannot be read here. */
async function manifestOf(files: readonly NamedFile[]): Promise<string | null> {
  const [first] = files;
  if (first !== undefined && isArchive(files)) return findManifest(first.file);
  return (await files.find(({ path }) => path === manifestName)?.file.text()) ?? null;
}

/** The name that a manifest states; empty if it states none. */
function nameIn(manifest: string | null): string {
  try {
    const { name } = JSON.parse(manifest ?? '{}') as { name?: unknown };
    return typeof name === 'string' ? name : '';
  } catch {
    return '';
  }
}

/** Whether an archive or a manifest already names the bundle. */
function isNamed(files: readonly NamedFile[]): boolean {
  return isArchive(files) || files.some(({ path }) => path === manifestName);
}

function isArchive(files: readonly NamedFile[]): boolean {
  return files.length === 1 && /\.(tar|tgz|tar\.gz)$/i.test(files[0]?.path ?? '');
}

async function packed(files: readonly NamedFile[], name: string): Promise<Packed> {
  const [first] = files;
  if (first === undefined || !isArchive(files)) return packFiles(files, name);
  return { body: first.file, manifest: await findManifest(first.file) };
}

/** Submits the form by this button, with `body` as its archive. */
function submitWith(
  form: HTMLFormElement,
  button: HTMLButtonElement,
  archive: HTMLInputElement,
  body: Blob,
): void {
  const transfer = new DataTransfer();
  transfer.items.add(new File([body], 'bundle.tar'));
  archive.files = transfer.files;
  form.requestSubmit(button);
}

/** Puts the channel into the URL, where the daemon reads it before the body. */
function chooseChannel(form: HTMLFormElement): void {
  const channel = form.querySelector<HTMLSelectElement>('#channel');
  const plan = form.querySelector<HTMLButtonElement>('#plan');
  channel?.addEventListener('change', () => {
    for (const [place, name] of [
      [form, 'action'],
      [plan, 'formAction'],
    ] as const) {
      if (place === null) continue;
      const address = new URL((place as unknown as Record<string, string>)[name] ?? '', location.href);
      if (channel.value === '') address.searchParams.delete('channel');
      else address.searchParams.set('channel', channel.value);
      place.setAttribute(name.toLowerCase(), address.href);
    }
  });
}

interface Sending {
  name: string;
  tell: (text: string) => void;
  findings: HTMLElement;
}

async function upload(
  form: HTMLFormElement,
  files: readonly NamedFile[],
  { name, tell, findings }: Sending,
): Promise<void> {
  findings.replaceChildren();
  tell(isArchive(files) ? 'Reading the archive' : 'Packing');
  const { body, manifest } = await packed(files, name);
  const data = new FormData();
  data.append('csrf', (form.elements.namedItem('csrf') as HTMLInputElement).value);
  data.append('bundle', body, 'bundle.tar');
  const { status, text } = await send(form.action, data, tell);
  if (status === 202) {
    const { run_id: runId } = JSON.parse(text) as { run_id: string };
    location.assign(`${form.dataset['runs'] ?? ''}/${encodeURIComponent(runId)}?done=uploaded`);
    return;
  }
  const problem = problemOf(status, text);
  tell('');
  showProblem(findings, problem, manifest);
}

/** Uses XMLHttpRequest, because `fetch` does not report upload progress. */
function send(url: string, data: FormData, tell: Sending['tell']): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', url);
    request.setRequestHeader('Accept', 'application/json');
    request.upload.addEventListener('progress', ({ loaded, total }) =>
      tell(loaded < total ? `Sent ${Math.floor((loaded / total) * 100)} %` : 'The daemon checks the bundle'),
    );
    request.addEventListener('load', () => resolve({ status: request.status, text: request.responseText }));
    request.addEventListener('error', () => reject(new Error('The connection broke: try again.')));
    request.send(data);
  });
}

function problemOf(status: number, text: string): Problem {
  try {
    return JSON.parse(text) as Problem;
  } catch {
    return { detail: `The daemon answered ${status}.` };
  }
}
