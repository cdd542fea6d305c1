/*
 * Uploads to a pipeline from the browser: an archive, or a directory that is packed here. Shows the daemon's
 * findings at their places in the manifest. Without this script the form uploads an archive.
 */
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
import { type Problem, showProblem } from './upload/show-problem.ts';

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
  let files: readonly NamedFile[] = [];
  const choose = ({ files: some, directory }: Chosen): void => {
    const refusal = refusalOf(some);
    files = refusal === null ? some : [];
    findings.replaceChildren();
    tell(refusal ?? summaryOf(files, directory));
    name.value = directory ?? '';
    (name.parentElement as HTMLElement).hidden = files.length === 0 || isNamed(files);
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
    void filesOfDrop(event.dataTransfer).then(choose);
  });
  directory.addEventListener('change', () => {
    archive.value = '';
    choose(filesOfInput(directory));
  });
  archive.addEventListener('change', () =>
    choose({ files: [...(archive.files ?? [])].map((file) => ({ path: file.name, file })), directory: null }),
  );
  form.addEventListener('submit', (event) => {
    const plan = event.submitter as HTMLButtonElement | null;
    // A plan is a page: the browser submits the form with the chosen archive.
    if (plan?.formAction.includes('dry_run') === true && archive.files?.length === 1) return;
    event.preventDefault();
    if (files.length === 0) {
      if (state.textContent === '') tell('Choose a directory or an archive first.');
      return;
    }
    const sending =
      plan?.formAction.includes('dry_run') === true
        ? packed(files, name.value).then(({ body }) => submitWith(form, plan, archive, body))
        : upload(form, files, { name: name.value, tell, findings });
    void sending.catch((error: unknown) => tell(String(error)));
  });
}

/** Why these files cannot be sent; null if they can. */
function refusalOf(files: readonly NamedFile[]): string | null {
  const [first, ...others] = files;
  if (first === undefined) return 'There are no files in it.';
  return others.length === 0 && /\.(zip|7z|rar)$/i.test(first.path)
    ? `${first.path} is not a tar archive. Unpack it, and choose the directory.`
    : null;
}

function summaryOf(files: readonly NamedFile[], directory: string | null): string {
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0).toLocaleString('en-GB');
  const count = files.length === 1 ? (files[0]?.path ?? '') : `${files.length.toLocaleString('en-GB')} files`;
  return `${directory === null ? '' : `${directory}: `}${count}, ${bytes} bytes`;
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
  tell(isArchive(files) ? 'looking at it' : 'packing');
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
      tell(loaded < total ? `sent ${Math.floor((loaded / total) * 100)} %` : 'the daemon looks at it'),
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
