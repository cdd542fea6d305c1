/** What a request of the reference is sent with. */
export interface BodyField {
  /** Label and control, and a choice if there are several forms of a body. */
  element: HTMLElement;
  /** Without `type`, the browser knows it: of a form, it has the boundary. */
  read: () => { type?: string; content?: BodyInit | undefined };
}

/** The field for the body of an operation; undefined if it has none. */
export function bodyField(operation: HTMLElement): BodyField | undefined {
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

/** Text for JSON, a file for each part of a form, and one file for anything else. */
function controlsOf({ dataset }: HTMLElement, id: string): Controls {
  const { body: type = '', parts = '', example = '' } = dataset;
  if (type === 'application/json') {
    const text = document.createElement('textarea');
    Object.assign(text, { className: 'input', rows: 4, value: example, spellcheck: false });
    return {
      fields: [labelled(text, id, 'Body')],
      read: () => (text.value.trim() === '' ? {} : { type, content: text.value }),
    };
  }
  const names = type === 'multipart/form-data' ? parts.split(' ') : ['Body'];
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
  field.className = 'field';
  const label = document.createElement('label');
  control.id = id;
  label.htmlFor = id;
  label.textContent = text;
  field.append(label, control);
  return field;
}
