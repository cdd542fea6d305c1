/*
 * Lets people upload an archive or a directory to a pipeline. A directory is packed in the browser. If the
 * daemon finds problems, they are shown next to the line in the manifest. Without this script, the form can
 * still upload archives.
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

interface Elements {
  form: HTMLFormElement;
  /** Shows the progress, or the reason why the upload cannot start. */
  state: HTMLElement;
  findings: HTMLElement;
  /** The area of the page that accepts dropped files. */
  drop: HTMLElement;
  archive: HTMLInputElement;
  directory: HTMLInputElement;
  name: HTMLInputElement;
}

function findElements(): Elements | null {
  const form = document.querySelector<HTMLFormElement>('#upload');
  const state = form?.querySelector<HTMLElement>('#upload-state');
  const findings = document.querySelector<HTMLElement>('#upload-findings');
  const drop = form?.querySelector<HTMLElement>('#drop');
  const archive = form?.querySelector<HTMLInputElement>('#bundle');
  const directory = form?.querySelector<HTMLInputElement>('#directory');
  const name = form?.querySelector<HTMLInputElement>('#bundle-name');
  if (!form || !state || !findings || !drop || !archive || !directory || !name) return null;
  return { form, state, findings, drop, archive, directory, name };
}

/** Phones can choose an archive, but often no directory. The styles put the buttons in this order. */
const phone = '(hover: none), (max-width: 40rem)';

class UploadForm {
  readonly #elements: Elements;
  /** The chosen archive or directory; empty if neither is known. */
  #name = '';
  /** The files to upload. Empty until the user has chosen files and they have been checked. */
  #files: readonly NamedFile[] = [];
  /** Counts how often the user has chosen files. */
  #choices = 0;
  /** The kind of the last choice. Before the first one, it is the kind that the device is best at. */
  #kind: 'archive' | 'directory' = matchMedia(phone).matches ? 'archive' : 'directory';
  /** True if the archive is in the form, so that the browser can submit it. */
  #isPacked = false;

  constructor(elements: Elements) {
    this.#elements = elements;
  }

  start(): void {
    const { form, drop, archive, directory } = this.#elements;
    for (const part of form.querySelectorAll<HTMLElement>('[data-with-script]')) part.hidden = false;
    for (const part of form.querySelectorAll<HTMLElement>('[data-without-script]')) part.hidden = true;
    archive.classList.replace('input', 'unseen');
    archive.required = false;
    this.#setFiles([], drop.classList.contains('again') ? 'again' : 'first');
    chooseChannel(form);
    drop.addEventListener('dragover', (event) => {
      event.preventDefault();
      drop.classList.add('over');
    });
    drop.addEventListener('dragleave', () => drop.classList.remove('over'));
    drop.addEventListener('drop', (event) => {
      event.preventDefault();
      drop.classList.remove('over');
      archive.value = '';
      this.#reportFailureOf(filesOfDrop(event.dataTransfer).then((chosen) => this.#choose(chosen)));
    });
    directory.addEventListener('change', () => {
      archive.value = '';
      void this.#choose(filesOfInput(directory));
    });
    archive.addEventListener('change', () => {
      const files = [...(archive.files ?? [])].map((file) => ({ path: file.name, file }));
      void this.#choose({ files, directory: null });
    });
    form.addEventListener('submit', (event) => this.#submit(event));
  }

  async #choose({ files, directory }: Chosen): Promise<void> {
    const { form, findings, name } = this.#elements;
    const choice = ++this.#choices;
    this.#kind = isArchive(files) ? 'archive' : 'directory';
    this.#setFiles([]);
    this.#name = directory ?? (files.length === 1 ? (files[0]?.path ?? '') : '');
    findings.replaceChildren();
    const refusal = refusalOf(files);
    if (refusal !== null) {
      name.disabled = false;
      name.value = directory ?? '';
      this.#report(refusal);
      return;
    }
    const manifest = await manifestOf(files);
    // By now, the user has chosen different files.
    if (choice !== this.#choices) return;
    name.disabled = isNamed(files);
    name.value = name.disabled ? nameIn(manifest) : (directory ?? '');
    const limits = { maxBytes: Number(form.dataset['maxBytes']), maxFiles: Number(form.dataset['maxFiles']) };
    const problems = problemsOf(files, { isArchive: isArchive(files), manifest, limits });
    if (problems.length > 0) {
      this.#setFiles([], 'again');
      this.#showInvalid(problems);
    } else this.#setFiles(files);
    const note = hiddenNote(files);
    this.#report([summaryOf(files, directory), ...(note === null ? [] : [note])].join('. '));
  }

  #submit(event: SubmitEvent): void {
    const { form, archive, name } = this.#elements;
    // The response to a dry run is a page, so let the browser submit the form with the archive.
    if (this.#isPacked) return;
    event.preventDefault();
    const problem = name.disabled || name.value === '' ? null : pathProblem(name.value);
    if (problem !== null) {
      this.#showInvalid([problem]);
      return;
    }
    const button = event.submitter as HTMLButtonElement | null;
    if (button?.formAction.includes('dry_run') !== true) {
      this.#reportFailureOf(this.#upload());
      return;
    }
    this.#reportFailureOf(
      packed(this.#files, name.value).then(({ body }) => {
        this.#isPacked = true;
        submitWith(form, button, archive, body);
      }),
    );
  }

  async #upload(): Promise<void> {
    const { form, findings, name } = this.#elements;
    findings.replaceChildren();
    this.#report(isArchive(this.#files) ? 'Reading the archive' : 'Packing');
    const { body, manifest } = await packed(this.#files, name.value);
    const data = new FormData();
    data.append('csrf', (form.elements.namedItem('csrf') as HTMLInputElement).value);
    data.append('bundle', body, 'bundle.tar');
    const { status, text } = await send(form.action, data, (progress) => this.#report(progress));
    if (status === 202) {
      const { run_id: runId } = JSON.parse(text) as { run_id: string };
      location.assign(`${form.dataset['runs'] ?? ''}/${encodeURIComponent(runId)}?done=uploaded`);
      return;
    }
    this.#report('');
    this.#setFiles([], 'again');
    showProblem(findings, problemOf(status, text), { manifest, name: this.#name });
  }

  /**
   * Makes the next step the primary button: choosing files, or uploading them. After a refusal, the area is
   * small and the step is to choose the same kind of files again.
   */
  #setFiles(files: readonly NamedFile[], attempt: 'first' | 'again' = 'first'): void {
    this.#files = files;
    const { form, drop } = this.#elements;
    const isEmpty = files.length === 0;
    drop.classList.toggle('again', attempt === 'again');
    for (const [kind, first] of [
      ['directory', 'Choose a directory'],
      ['archive', 'Choose an archive'],
    ] as const) {
      const button = form.querySelector(`#choose-${kind}`);
      const isNext = isEmpty && kind === this.#kind;
      button?.classList.toggle('primary', isNext);
      if (button) button.textContent = isNext && attempt === 'again' ? `Choose the ${kind} again` : first;
    }
    for (const button of form.querySelectorAll<HTMLButtonElement>('#send, #plan')) button.disabled = isEmpty;
    form.querySelector('#send')?.classList.toggle('primary', !isEmpty);
  }

  #report(text: string): void {
    this.#elements.state.textContent = text;
  }

  #reportFailureOf(work: Promise<void>): void {
    void work.catch((error: unknown) => this.#report(String(error)));
  }

  #showInvalid(problems: readonly string[]): void {
    const findings = problems.map(plainFinding);
    showProblem(this.#elements.findings, { detail: 'Not ready to upload', findings });
  }
}

/** Returns the reason why these files cannot be uploaded, or null if they can. */
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

/**
 * Returns the text of the manifest. Returns null if there is none, or if it is in an archive that cannot be
 * read in the browser.
 */
async function manifestOf(files: readonly NamedFile[]): Promise<string | null> {
  const [first] = files;
  if (first !== undefined && isArchive(files)) return findManifest(first.file);
  return (await files.find(({ path }) => path === manifestName)?.file.text()) ?? null;
}

/** Returns the bundle's name in the manifest, or an empty string if it has none. */
function nameIn(manifest: string | null): string {
  try {
    const { name } = JSON.parse(manifest ?? '{}') as { name?: unknown };
    return typeof name === 'string' ? name : '';
  } catch {
    return '';
  }
}

/** Reports whether the bundle's name is already known from an archive or a manifest. */
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

/** Submits the form as if this button had been clicked, with `body` as the archive. */
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

/** Puts the channel in the URL, because the daemon needs it before it reads the body. */
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

/** Sends the request with XMLHttpRequest, because `fetch` does not report the progress of uploads. */
function send(
  url: string,
  data: FormData,
  report: (progress: string) => void,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', url);
    request.setRequestHeader('Accept', 'application/json');
    request.upload.addEventListener('progress', ({ loaded, total }) =>
      report(
        loaded < total ? `Sent ${Math.floor((loaded / total) * 100)} %` : 'The daemon checks the bundle',
      ),
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

const elements = findElements();
if (elements !== null) new UploadForm(elements).start();
