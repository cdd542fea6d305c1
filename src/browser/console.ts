/*
 * Keeps an open page of the console as it would be if it were loaded now: the daemon tells that a run has
 * changed, and the parts of the page that may be different are taken from the same address again. So what a
 * page shows is made in one place, and the script knows nothing of it. Where nothing is followed, it does
 * nothing.
 */
import { Idiomorph } from 'idiomorph';

/** Progress comes a few times a second. */
const minMs = 300;
/** Ages are told in minutes. */
const anewMs = 30_000;

const note = document.querySelector<HTMLElement>('[data-events]');
const events = note?.dataset['events'];
if (note !== null && events !== undefined) follow(note, events);

function follow(place: HTMLElement, url: string): void {
  const state = place.querySelector<HTMLElement>('[data-live-state]');
  const tell = (text: string): void => {
    place.hidden = text === '';
    if (state !== null) state.textContent = text;
  };
  const refresh = paced(async () => {
    if (!(await takeAnew())) location.reload();
  });
  const source = new EventSource(url);
  source.addEventListener('open', () => tell(''));
  source.addEventListener('error', () => tell('connecting'));
  source.addEventListener('snapshot', refresh);
  source.addEventListener('run', refresh);
  setInterval(() => {
    if (!document.hidden) refresh();
  }, anewMs);
}

/** Calls at most every so often, and once more for what came meanwhile. */
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

/** False where the page is not there any more as it was: nobody is logged in, or the run is forgotten. */
async function takeAnew(): Promise<boolean> {
  const address = new URL(location.href);
  address.searchParams.delete('done');
  const response = await fetch(address, { headers: { Accept: 'text/html' }, redirect: 'manual' });
  if (!response.ok) return response.status >= 500;
  const next = new DOMParser().parseFromString(await response.text(), 'text/html');
  for (const part of document.querySelectorAll('[data-live]')) {
    const made = next.getElementById(part.id);
    if (made !== null) void Idiomorph.morph(part, made, { ignoreActiveValue: true });
  }
  document.title = next.title;
  return true;
}
