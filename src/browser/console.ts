/*
 * Keeps an open console page up to date. When the daemon reports a changed run, the script loads the same URL
 * again and replaces the parts that can change. Only the server renders content. Pages without events stay
 * unchanged.
 */
import { Idiomorph } from 'idiomorph';

/** Milliseconds between updates, because progress changes several times a second. */
const minMs = 300;
/** Preserves the reader's selection and collapsed sections. */
const callbacks = {
  beforeAttributeUpdated: (name: string): boolean => name !== 'checked' && name !== 'open',
};
/** In milliseconds. Ages are shown in minutes. */
const refreshMs = 30_000;

const note = document.querySelector<HTMLElement>('[data-events]');
const events = note?.dataset['events'];
if (note !== null && events !== undefined) follow(note, events);

function follow(place: HTMLElement, url: string): void {
  const state = place.querySelector<HTMLElement>('[data-live-state]');
  const showState = (text: string): void => {
    place.hidden = text === '';
    if (state !== null) state.textContent = text;
  };
  const refresh = paced(async () => {
    if (!(await morphPage())) location.reload();
  });
  const source = new EventSource(url);
  source.addEventListener('open', () => showState(''));
  source.addEventListener('error', () => showState('connecting'));
  source.addEventListener('snapshot', refresh);
  source.addEventListener('run', refresh);
  setInterval(() => {
    if (!document.hidden) refresh();
  }, refreshMs);
}

/** Limits the rate of calls to `work`. Calls in between trigger one more call afterwards. */
function paced(work: () => Promise<void>): () => void {
  let isBusy = false;
  let isWanted = false;
  return function call(): void {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    isWanted = false;
    const pause = new Promise((resolve) => setTimeout(resolve, minMs));
    void work()
      .catch(() => undefined)
      .then(() => pause)
      .finally(() => {
        isBusy = false;
        if (isWanted) call();
      });
  };
}

/** Returns false if the page no longer exists because the session has ended or the run has expired. */
async function morphPage(): Promise<boolean> {
  const address = new URL(location.href);
  address.searchParams.delete('done');
  const response = await fetch(address, { headers: { Accept: 'text/html' }, redirect: 'manual' });
  if (!response.ok) return response.status >= 500;
  const next = new DOMParser().parseFromString(await response.text(), 'text/html');
  for (const part of document.querySelectorAll('[data-live]')) {
    const made = next.getElementById(part.id);
    if (made !== null) void Idiomorph.morph(part, made, { ignoreActiveValue: true, callbacks });
  }
  document.title = next.title;
  return true;
}
