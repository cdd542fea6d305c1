/*
 * Makes the API reference interactive: links open the section that they lead to, and requests can be sent.
 * The token is not stored anywhere, and only sent with the request.
 */

const base = new URL('.', document.baseURI);
/** How far below the top of the window a part of the page begins that counts as the current one. */
const maxTopPx = 120;

function openTarget(): void {
  const target = document.getElementById(location.hash.slice(1));
  let around = target?.closest('details');
  if (!around) return;
  for (; around; around = around.parentElement?.closest('details')) around.open = true;
  target?.scrollIntoView();
}

/** Adds a button below the command that replaces itself with the form for sending the request. */
function addTryButton(operation: HTMLElement): void {
  const foot = document.createElement('div');
  foot.className = 'foot';
  const button = document.createElement('button');
  Object.assign(button, { type: 'button', className: 'button primary', textContent: 'Try it' });
  const note = document.createElement('p');
  note.className = 'quiet';
  note.textContent = 'Sends a real request to this server.';
  button.addEventListener('click', () => {
    fillForm(operation, foot);
    foot.querySelector<HTMLElement>('.input')?.focus();
  });
  foot.append(button, note);
  operation.querySelector('.example')?.append(foot);
}

/** Creates the fields of a request: one for each parameter, the body and the token. */
function fieldsOf(operation: HTMLElement, body: BodyField | undefined): HTMLElement[] {
  const fields = [...operation.querySelectorAll<HTMLElement>('li[data-name]')].map(({ dataset }) => {
    const { name = '', in: place = '' } = dataset;
    return labelled(controlOf(dataset), `${operation.id}-${place}-${name}`, `${name} (${place})`);
  });
  if (body !== undefined) fields.push(body.element);
  if (operation.dataset['access'] !== undefined) {
    const token = document.createElement('input');
    Object.assign(token, { type: 'password', autocomplete: 'off', className: 'input' });
    Object.assign(token.dataset, { name: 'token', in: 'token' });
    fields.push(labelled(token, `${operation.id}-token`, 'Token'));
  }
  return fields;
}

/** Creates the control for a parameter: a choice if it has few values, and otherwise a text field. */
function controlOf(row: DOMStringMap): HTMLElement {
  const { name = '', in: place = '', choices = '', preset = '', example = '' } = row;
  const isRequired = 'required' in row;
  const control = document.createElement(choices === '' ? 'input' : 'select');
  control.className = 'input';
  control.required = isRequired;
  Object.assign(control.dataset, { name, in: place });
  if (control instanceof HTMLInputElement) {
    control.autocomplete = 'off';
    control.placeholder = preset === '' ? example && `e.g. ${example}` : preset;
    return control;
  }
  if (!isRequired) control.add(new Option(preset === '' ? '–' : `${preset} (default)`, ''));
  for (const choice of choices.split(' '))
    if (choice !== preset || isRequired) control.add(new Option(choice));
  return control;
}

function requestOf(operation: HTMLElement, form: HTMLFormElement, body: BodyField | undefined): Request {
  const headers = new Headers({ Accept: 'application/json' });
  const query = new URLSearchParams();
  let filled = (operation.dataset['path'] ?? '').slice(1);
  for (const { dataset, value } of form.querySelectorAll<HTMLInputElement>('[data-in].input')) {
    const name = dataset['name'] ?? '';
    if (dataset['in'] === 'path') filled = filled.replace(`{${name}}`, () => encodeURIComponent(value));
    else if (value === '') continue;
    else if (dataset['in'] === 'query') query.append(name, value);
    else if (dataset['in'] === 'token') headers.set('Authorization', `Bearer ${value}`);
    else headers.set(name, value);
  }
  const { type, content } = body?.read() ?? {};
  if (type !== undefined) headers.set('Content-Type', type);
  const url = new URL(filled, base);
  url.search = query.toString();
  const { method = 'GET' } = operation.dataset;
  return new Request(url, { method, headers, body: content ?? null, credentials: 'omit', cache: 'no-store' });
}

/** Formats a response as text, with its status, headers and body. */
async function answerOf(request: Request): Promise<string> {
  const response = await fetch(request);
  const text = await response.text();
  const isJson = /[/+]json/.test(response.headers.get('Content-Type') ?? '');
  const shown = isJson ? JSON.stringify(JSON.parse(text), null, 2) : text;
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`);
  return [`${response.status} ${response.statusText}`, ...headers, '', shown].join('\n');
}

function fillForm(operation: HTMLElement, foot: HTMLElement): void {
  const form = operation.querySelector('form');
  if (form === null) return;
  const body = bodyField(operation);
  const send = document.createElement('button');
  Object.assign(send, { className: 'button primary', textContent: 'Send' });
  foot.classList.add('try');
  foot.querySelector('.button')?.replaceWith(send);
  foot.prepend(...fieldsOf(operation, body));
  const answer = document.createElement('pre');
  Object.assign(answer, { className: 'code tried', tabIndex: 0, hidden: true });
  answer.setAttribute('role', 'status');
  answer.setAttribute('aria-label', 'Response');
  form.querySelector('.example')?.after(answer);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    answer.hidden = false;
    answer.textContent = '…';
    Promise.resolve()
      .then(() => answerOf(requestOf(operation, form, body)))
      .then(
        (text) => (answer.textContent = text),
        (error: unknown) => (answer.textContent = `No response: ${String(error)}`),
      );
  });
}

function addCopyButton(example: HTMLElement): void {
  const button = document.createElement('button');
  Object.assign(button, { type: 'button', className: 'button copy', textContent: 'Copy' });
  button.addEventListener('click', () => {
    void navigator.clipboard
      .writeText(example.querySelector('pre')?.textContent ?? '')
      .then(() => (button.textContent = 'Copied'));
  });
  example.querySelector('.head')?.append(button);
}

// Skip event streams. They never end, so there is no complete response to show.
const finite = [...document.querySelectorAll<HTMLElement>('.operation')].filter(
  ({ dataset }) => !dataset['path']?.endsWith('/events'),
);
for (const operation of finite)
  operation.addEventListener('toggle', () => addTryButton(operation), { once: true });
const groups = [...document.querySelectorAll<HTMLDetailsElement>('.whole')];
// All requests would be as long as 20 screens of a phone.
if (matchMedia('(max-width: 40rem)').matches) for (const group of groups) group.open = false;
if (isSecureContext) document.querySelectorAll<HTMLElement>('.example').forEach(addCopyButton);
// Show the actual URL of this server in the first example. A narrow screen can break it after a slash.
const address = document.getElementById('address');
const parts = base.href.replace(/\/$/, '').split(/(?<=[^/]\/)(?=[^/])/);
address?.replaceChildren(...parts.flatMap((part) => [part, document.createElement('wbr')]));
addEventListener('hashchange', () => {
  openTarget();
  markCurrent();
});
addEventListener('scroll', () => requestAnimationFrame(markCurrent), { passive: true });
document.getElementById('filter')?.addEventListener('input', filter);
openTarget();
markCurrent();

/** Marks the link to the part of the page that is in view. */
function markCurrent(): void {
  const nav = document.querySelector<HTMLElement>('.contents');
  const links = [...(nav?.querySelectorAll<HTMLAnchorElement>('li li a, li > a:only-child') ?? [])];
  const topOf = ({ hash }: HTMLAnchorElement): number =>
    document.getElementById(hash.slice(1))?.getBoundingClientRect().top ?? Infinity;
  const asked = links.find(({ hash }) => hash === location.hash);
  const isInView = asked !== undefined && topOf(asked) >= 0 && topOf(asked) < innerHeight;
  const current = isInView ? asked : (links.filter((link) => topOf(link) <= maxTopPx).at(-1) ?? links[0]);
  for (const link of links)
    if (link === current) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  if (nav === null || current === undefined || nav.scrollHeight <= nav.clientHeight) return;
  const top = current.offsetTop - nav.scrollTop;
  if (top < 0 || top > nav.clientHeight - current.offsetHeight)
    nav.scrollTop = current.offsetTop - nav.clientHeight / 2;
}

/** Hides the requests whose method, summary and path do not contain the text, here and in the contents. */
function filter({ target }: Event): void {
  const text = target instanceof HTMLInputElement ? target.value.trim().toLowerCase() : '';
  for (const operation of document.querySelectorAll<HTMLElement>('.operation')) {
    const { method = '', path = '' } = operation.dataset;
    const summary = operation.querySelector('.about')?.textContent ?? '';
    operation.hidden = ![method, summary, path].join(' ').toLowerCase().includes(text);
    const entry = document.querySelector<HTMLElement>(`.contents li li:has(> a[href="#${operation.id}"])`);
    if (entry !== null) entry.hidden = operation.hidden;
  }
  for (const section of document.querySelectorAll<HTMLElement>('section:has(.operation)'))
    section.hidden = section.querySelector('.operation:not([hidden])') === null;
  if (text !== '')
    for (const group of groups.filter(({ className }) => className.includes('tag'))) group.open = true;
}

/** The field for the body of a request. */
interface BodyField {
  /** The label and the input. If there are several kinds of bodies, also lets the user choose one. */
  element: HTMLElement;
  /**
   * Returns the body. If there is no `type`, the browser sets the Content-Type, including the boundary of a
   * form.
   */
  read: () => { type?: string; content?: BodyInit | undefined };
}

/** Creates the field for the body, or returns undefined if the operation has none. */
function bodyField(operation: HTMLElement): BodyField | undefined {
  const forms = [...operation.querySelectorAll<HTMLElement>('[data-body]')];
  const [first] = forms;
  if (first === undefined) return undefined;
  const element = document.createElement('div');
  element.className = 'stack tight';
  const id = `${operation.id}-body`;
  let one = controlsOf(first, id);
  if (forms.length > 1) {
    const choice = document.createElement('select');
    choice.className = 'input';
    for (const { dataset } of forms) choice.add(new Option(dataset['body']));
    choice.addEventListener('change', () => {
      one = controlsOf(forms[choice.selectedIndex] ?? first, id);
      element.replaceChildren(labelled(choice, `${id}-type`, 'Content-Type'), ...one.fields);
    });
    element.append(labelled(choice, `${id}-type`, 'Content-Type'));
  }
  element.append(...one.fields);
  return { element, read: () => one.read() };
}

interface Controls {
  fields: HTMLElement[];
  read: BodyField['read'];
}

/**
 * Creates the input for the body: a text area for JSON, a file input for each part of a form, and a single
 * file input for anything else.
 */
function controlsOf({ dataset }: HTMLElement, id: string): Controls {
  const { body: type = '', parts = '', example = '' } = dataset;
  if (type === 'application/json') {
    const text = document.createElement('textarea');
    Object.assign(text, { className: 'input', rows: 4, value: example, spellcheck: false });
    return {
      fields: [labelled(text, id, 'JSON')],
      read: () => (text.value.trim() === '' ? {} : { type, content: text.value }),
    };
  }
  const names = type === 'multipart/form-data' ? parts.split(' ') : ['File'];
  const files = names.map((name) => ({ name, input: fileInput() }));
  const fields = files.map(({ name, input }) => labelled(input, `${id}-${name}`, name));
  if (type !== 'multipart/form-data')
    return { fields, read: () => ({ type, content: files[0]?.input.files?.[0] }) };
  const read = (): { content: FormData } => {
    const content = new FormData();
    for (const { name, input } of files) for (const file of input.files ?? []) content.append(name, file);
    return { content };
  };
  return { fields, read };
}

function fileInput(): HTMLInputElement {
  const input = document.createElement('input');
  input.type = 'file';
  input.className = 'input';
  return input;
}

function labelled(control: HTMLElement, id: string, text: string): HTMLElement {
  const field = document.createElement('div');
  field.className = 'field part';
  const label = document.createElement('label');
  control.id = id;
  label.htmlFor = id;
  label.textContent = text;
  field.append(label, control);
  return field;
}
