/*
 * Shows on the landing page whether the daemon is healthy, and its actual URL in the example.
 */
import './copy.ts';

const base = new URL('.', document.baseURI);

interface Health {
  status?: string;
  detail?: string;
  details?: { weather?: string; paused?: string[] };
}

async function showHealth(badge: HTMLElement, note: HTMLElement): Promise<void> {
  const response = await fetch(new URL('healthz', base), { headers: { Accept: 'application/json' } });
  const { detail, details = {} }: Health = (await response.json()) as Health;
  const warnings = [
    ...(details.weather === 'degraded' ? ['The weather database is unreachable.'] : []),
    ...(details.paused === undefined ? [] : [`Paused pipelines: ${details.paused.join(', ')}.`]),
  ];
  const [status, text] = response.ok ? ['success', 'Healthy'] : ['failure', 'Not ready'];
  badge.className = `badge ${response.ok && warnings.length > 0 ? 'warning' : status}`;
  badge.textContent = text;
  note.textContent = response.ok ? warnings.join(' ') : (detail ?? '');
}

const badge = document.getElementById('state');
const note = document.getElementById('state-note');
// If the request fails, the page still says that the daemon runs, because it has sent the page.
if (badge !== null && note !== null) showHealth(badge, note).catch(() => undefined);
const address = document.getElementById('address');
if (address !== null) address.textContent = base.href.replace(/\/$/, '');
