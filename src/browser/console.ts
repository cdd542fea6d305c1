/*
 * Keeps pages of the console up to date. When the daemon reports that a run has changed, the page is
 * requested again and its content is replaced where it differs. All rendering is done by the server. Pages
 * that do not follow events are left alone.
 */
import './copy.ts';
import { Idiomorph } from 'idiomorph';

/**
 * The minimum time between two updates in milliseconds, because the progress of a run changes several times a
 * second.
 */
const minMs = 300;
/** Do not change which items are selected and which sections are open. */
const callbacks = {
  beforeAttributeUpdated: (name: string): boolean => name !== 'checked' && name !== 'open',
};
/** In milliseconds. Frequent enough for ages, which are shown in minutes. */
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

/**
 * Returns a function that calls `work`, but not too often. If it is called again too early, `work` runs once
 * more afterwards.
 */
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

/**
 * Returns false if the page cannot be updated anymore, because the session has ended or the run has expired.
 */
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
