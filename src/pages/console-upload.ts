/*
 * Uploads to a pipeline from the browser: an archive as it is, or a directory, which is packed here. What the
 * daemon finds wrong is shown at its place in the manifest. Without this script the form uploads an archive.
 */
import { findManifest, packFiles, type NamedFile } from './upload/archive.ts';
import { filesOfDrop } from './upload/dropped-files.ts';
import { showProblem, type Problem } from './upload/show-problem.ts';

const form = document.querySelector<HTMLFormElement>('#upload');
if (form !== null) begin(form);

function begin(form: HTMLFormElement): void {
  const state = form.querySelector<HTMLElement>('#upload-state');
  const findings = document.querySelector<HTMLElement>('#upload-findings');
  const drop = form.querySelector<HTMLElement>('#drop');
  const archive = form.querySelector<HTMLInputElement>('#bundle');
  const directory = form.querySelector<HTMLInputElement>('#directory');
  if (state === null || findings === null || drop === null || archive === null || directory === null) return;
  for (const part of form.querySelectorAll<HTMLElement>('[data-with-script]')) part.hidden = false;
  for (const part of form.querySelectorAll<HTMLElement>('[data-without-script]')) part.hidden = true;
  chooseChannel(form);
  const tell = (text: string): void => void (state.textContent = text);
  const begun = (files: NamedFile[]): void =>
    void upload(form, files, { tell, findings }).catch((error: unknown) => tell(String(error)));

  drop.addEventListener('dragover', (event) => {
    event.preventDefault();
    drop.classList.add('over');
  });
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    drop.classList.remove('over');
    void filesOfDrop(event.dataTransfer).then(begun);
  });
  directory.addEventListener('change', () =>
    begun(
      [...(directory.files ?? [])].map((file) => ({
        file,
        path: file.webkitRelativePath.replace(/^[^/]+\//, ''),
      })),
    ),
  );
  form.addEventListener('submit', (event) => {
    const file = archive.files?.[0];
    // A plan is a page.
    if (file === undefined || (event.submitter as HTMLButtonElement | null)?.formAction.includes('dry_run'))
      return;
    event.preventDefault();
    begun([{ path: file.name, file }]);
  });
}

/** The channel stands in the address, where the daemon reads it before the body. */
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

interface Signs {
  tell: (text: string) => void;
  findings: HTMLElement;
}

const archiveName = /\.(tar|tgz|tar\.gz)$/i;

async function upload(form: HTMLFormElement, files: NamedFile[], { tell, findings }: Signs): Promise<void> {
  findings.replaceChildren();
  const [first] = files;
  if (first === undefined) return;
  const isArchive = files.length === 1 && archiveName.test(first.path);
  tell(isArchive ? 'looking at it' : 'packing');
  const { body, manifest } = isArchive
    ? { body: first.file, manifest: await findManifest(first.file) }
    : await packFiles(files);
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

/** `fetch` tells nothing of what it has sent. */
function send(url: string, data: FormData, tell: Signs['tell']): Promise<{ status: number; text: string }> {
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
