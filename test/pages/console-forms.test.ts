import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Browser, Page, Request } from 'playwright-core';
import t, { type Test } from 'tap';
import { consoleRoutes } from '../../src/api/console/console.ts';
import { startChromium } from '../services/chromium.ts';
import { type ConsoleDaemon, consoleTokens, logIn, startConsole } from './console-daemon.ts';

/* The console in a browser without scripts: every page is readable, and every action is a form. */

let browser: Browser;
let daemon: ConsoleDaemon;
t.setTimeout(0);
t.before(async () => {
  browser = await startChromium();
  daemon = await startConsole(t);
  await daemon.publish({ 'index.html': 'first' }, { created: '2026-11-20T01:02:03Z' });
});
t.teardown(() => browser.close());

/** Calls `seen` with the form data of every page that it opens. */
async function open(
  t: Test,
  { token = consoleTokens.operator, seen = () => undefined }: OpenOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ javaScriptEnabled: false });
  t.teardown(() => context.close());
  context.on('request', seen);
  const page = await context.newPage();
  await logIn(page, daemon.base, token);
  return page;
}

interface OpenOptions {
  token?: string;
  seen?: (request: Request) => void;
}

const runOf = (page: Page): string => new URL(page.url()).pathname.split('/').at(-1) ?? '';
const mainOf = (page: Page): Promise<string> => page.locator('main').innerText();

t.test('without script a form performs every action of the console', async (t) => {
  // A run waits for a retry only if a storage is unreachable; retry.test.ts submits this form.
  const done = new Set<string>(['/console/runs/{run_id}/retry']);
  const actions = consoleRoutes.filter(({ method }) => method === 'post');
  const forms = actions.map(({ path }) => ({
    path,
    form: new RegExp(`^/${path.slice(1).replace(/\{\w+\}/g, '[^/]+')}$`),
  }));
  const seen = (request: Request): void => {
    if (request.method() !== 'POST') return;
    t.equal(request.resourceType(), 'document', 'without a script there is no confirmation');
    for (const { path, form } of forms) if (form.test(new URL(request.url()).pathname)) done.add(path);
  };
  const page = await open(t, { seen });
  const admin = await open(t, { seen, token: consoleTokens.admin });

  // Runs of a source, and plans of such runs.
  await page.goto(`${daemon.base}console/pipelines/library`);
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.waitForURL(/done=started/);
  await daemon.follow(runOf(page));
  await page.reload();
  t.match(await mainOf(page), /succeeded[^]*published/);
  await page.getByRole('button', { name: 'Run again' }).click();
  await page.waitForURL(/done=rerun/);
  t.match(await daemon.follow(runOf(page)), { status: 'succeeded', rerun_of: /^library\./ });
  rmSync(path.join(daemon.root, 'public/shelf/session-41'), { recursive: true });
  await page.goto(`${daemon.base}console/pipelines/library/plan`);
  await page.getByRole('button', { name: 'Make a plan' }).click();
  t.match(await mainOf(page), /A run would change \d files? at shelf[^]*session-41/);
  await page.getByRole('button', { name: 'Run it as planned' }).click();
  await page.waitForURL(/done=started/);
  t.match(await daemon.follow(runOf(page)), { status: 'succeeded' });

  // An upload: only planned, accepted, and paused to be cancelled.
  const archive = await daemon.archive({ 'index.html': 'by a form' }, '2026-11-22T01:02:03Z');
  const file = { name: 'bundle.tar', mimeType: 'application/x-tar', buffer: archive };
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Plan without publishing' }).click();
  t.match(
    await mainOf(page),
    /Plan\s+A run would change \d files at web and site[^]*A plan publishes nothing[^]*web/,
  );
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
  await page.waitForURL(/done=uploaded/);
  t.match(await daemon.follow(runOf(page)), { status: 'succeeded', error: null });
  await admin.goto(`${daemon.base}console/pipelines/maps`);
  await admin.getByText('Pause…').click();
  await admin.getByLabel('Reason, shown to producers').fill('the disk is exchanged');
  await admin.getByRole('button', { name: 'Pause the pipeline' }).click();
  await admin.waitForURL(/done=paused/);
  t.match(await mainOf(admin), /Paused since [^]*The disk is exchanged/);
  const held = await daemon.accept({ 'index.html': 'held' }, { created: '2026-11-22T02:00:00Z' });
  await page.goto(`${daemon.base}console/runs/${held}`);
  await page.getByRole('button', { name: 'Cancel the run' }).click();
  await page.waitForURL(/done=cancelled/);
  t.match(await daemon.follow(held), { status: 'failed', error: { code: 'cancelled' } });
  await admin.getByRole('button', { name: 'Resume the pipeline' }).click();
  await admin.waitForURL(/done=resumed/);
  t.match(
    (await daemon.publish({ 'index.html': 'goes on' }, { created: '2026-11-22T03:00:00Z' })).status,
    'succeeded',
  );

  // Failed runs: one of them, then all remaining ones with the selected filters.
  for (let run = 0; run < 3; run++) await daemon.start('blocked');
  const failed = `${daemon.base}console/runs?status=failed&pipeline=blocked`;
  await page.goto(failed);
  const choices = page.getByRole('checkbox');
  t.equal(await choices.count(), 3);
  t.equal(await page.locator('input[name=listed]').count(), 1, 'later runs replaced the other failures');
  await choices.nth(1).check();
  await page.getByRole('button', { name: 'Run selected again' }).click();
  await page.waitForURL(`${failed.replace(/\?.*/, '')}?status=failed&pipeline=blocked&done=reruns`);
  t.match(await mainOf(page), /The runs are repeated/);
  await page.goto(failed);
  await page.getByRole('button', { name: 'Run the latest failure again' }).click();
  await page.waitForURL(/done=reruns/);

  // Publishes content, verifies it, removes it and restores it.
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/web`);
  t.match(await mainOf(page), /index\.html/);
  await page.getByRole('button', { name: 'Verify all files' }).click();
  t.match(await mainOf(page), /\d+ files? of 1 bundle (is|are) as published/);
  const published = path.join(daemon.root, 'public/web/session-1/index.html');
  const bytes = readFileSync(published);
  rmSync(published);
  await page.getByRole('button', { name: 'Verify again' }).click();
  t.match(
    await mainOf(page),
    /1 file differs\s.*What to do:.*waybill verify --config waybill\.yml --pipeline maps --destination web --repair/s,
  );
  writeFileSync(published, bytes);
  const releases = `${daemon.base}console/pipelines/maps/destinations/site/releases`;
  await page.goto(releases);
  const rows = page.locator('tbody tr');
  const current = page.locator('.current-release');
  const newest = (await current.locator('code').innerText()).trim();
  t.match(await current.innerText(), /^✓ Readers get now\s+session-1\s+of [^]*, by operator/);
  const older = rows.filter({ hasText: 'Roll back…' }).first();
  const former = (await older.locator('th code').innerText()).trim();
  await older.getByRole('link', { name: `Files of ${former}` }).click();
  t.match(
    await mainOf(page),
    new RegExp(`Files of release ${former}\\s+Readers get another[^]*index\\.html`),
  );
  await page.getByRole('link', { name: 'Show the current one' }).click();
  t.notMatch(await mainOf(page), 'Readers get another');
  await page.goto(releases);
  await older.getByText('Roll back…').click();
  const words = (await page.locator('#confirm').innerText()).replace(/\s+/g, ' ');
  t.match(
    words,
    new RegExp(
      `^A rollback would [^.]*\\. .*Readers get now session-1 of .*${newest} After the rollback session-1 of .*${former} `,
    ),
    'a rollback is confirmed',
  );
  t.match(words, /Later runs Skip session-1 of [^,]+, [\d:]+ UTC until you promote it/);
  t.match(words, /A rollback would change \d+ files?/);
  await page.getByRole('button', { name: 'Roll back site' }).click();
  await page.waitForURL(/done=rolled_back/);
  t.match(await mainOf(page), /Rolled back: readers have the chosen release now/);
  t.match(await current.innerText(), former, 'the current release comes first');
  const undoable = page.url();
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/site`);
  t.match(
    await mainOf(page),
    new RegExp(`Published .* by operator \\(upload\\) · Open the run · release ${former}`),
    'its run is not the newest one',
  );
  await page.goto(undoable);
  await page.getByRole('button', { name: /^Undo: make session-1 of .* current again$/ }).click();
  await page.waitForURL(/done=promoted/);
  t.match(await current.innerText(), newest);

  // Actions of the whole daemon.
  await daemon.start('blocked');
  await admin.goto(`${daemon.base}console/admin`);
  t.match(
    await mainOf(admin),
    /Notifier journal: the directory does not exist\s+[1-9]\d* undelivered events?\s+\S+\/journal\/events\.jsonl\s+Publication failed: blocked → full, Run of \d+ \w+, [\d:]+\s+Writing the file failed[^]*What to do: Create the directory \S+\/journal, then send/,
  );
  mkdirSync(path.join(daemon.root, 'journal'));
  await admin.getByRole('button', { name: 'Send again the events of journal' }).click();
  await admin.waitForURL(/done=redelivered/);
  t.match(await mainOf(admin), /all delivered\s+to journal/);
  t.notMatch(await mainOf(admin), /\d undelivered/);
  await admin.getByRole('button', { name: 'Reload configuration' }).click();
  await admin.waitForURL(/done=reloaded/);
  t.match(await mainOf(admin), /The configuration of the file is in force/);
  await daemon.pause('maps', 'the disk');
  await admin.goto(`${daemon.base}console/admin`);
  t.match(await mainOf(admin), /1 pipeline paused[^]*Paused just now, by admin\s+The disk\./);
  await admin.getByRole('button', { name: /^Resume/ }).click();
  await admin.waitForURL(/console\/admin\?done=resumed/);
  t.match(await mainOf(admin), /Nothing needs attention/);

  await page.getByRole('button', { name: 'Log out', exact: true }).click();
  await page.waitForURL(/done=logged_out/);
  t.match(await mainOf(page), /You are logged out/);
  t.same(
    actions.map(({ path }) => path).filter((path) => !done.has(path)),
    [],
    'none was omitted',
  );
});

t.test('without script every page has the same content as with script', async (t) => {
  await daemon.start('blocked');
  const page = await open(t, { token: consoleTokens.admin });
  const withScript = await browser.newContext();
  t.teardown(() => withScript.close());
  const other = await withScript.newPage();
  await logIn(other, daemon.base, consoleTokens.admin);
  const { runs } = (await (
    await fetch(`${daemon.base}v1/runs`, { headers: { authorization: `Bearer ${consoleTokens.operator}` } })
  ).json()) as { runs: { run_id: string }[] };
  const maps = 'console/pipelines/maps';
  const paths = [
    ...['console', 'console/runs', 'console/admin', maps, `${maps}/trends`],
    ...[`${maps}/destinations/web`, `${maps}/destinations/site/releases`, 'docs', ''],
    ...[
      'console/runs?status=failed',
      'console/pipelines/library',
      'console/pipelines/secret',
      `console/runs/${runs[0]?.run_id}`,
    ],
  ];
  for (const path of paths) {
    for (const one of [page, other]) t.equal((await one.goto(`${daemon.base}${path}`))?.status(), 200, path);
    await other.waitForLoadState();
    const [without, scripted] = await Promise.all([page, other].map(wordsOf));
    t.ok((without?.length ?? 0) > 10, `${path} has text`);
    t.same(scripted, without, path);
  }
});

/**
 * The words of `main`, collapsed or not, without daemon states and copy buttons, which require scripts. Ages
 * and addresses in examples are omitted, because scripts replace them.
 */
async function wordsOf(page: Page): Promise<string[]> {
  const text = await page.evaluate<string>(`(() => {
    const main = document.querySelector('main').cloneNode(true);
    for (const one of main.querySelectorAll('.live, .copy, #state, #state-note')) one.remove();
    return main.textContent;
  })()`);
  return text
    .replace(/just now|\d+ (s|min) ago/g, 'now')
    .replace(/WAYBILL=\S+/, 'WAYBILL=')
    .replace(/--to\s+\S+/, '--to')
    .split(/\s+/);
}

t.test('a forbidden page links to a login with another token', async (t) => {
  const page = await open(t);
  t.equal((await page.goto(`${daemon.base}console/admin`))?.status(), 403);
  t.match(
    await mainOf(page),
    /^Console\s+Daemon\s+You may not open Daemon\s+This needs the admin token\. You are logged in with the token operator\.\s+If you have no other token, ask the administrator of this server\.\s+Log in with another token/,
  );
  t.ok(await page.getByRole('button', { name: 'Log out' }).isVisible(), 'in the header of every page');
  const guest = await open(t, { token: consoleTokens.guest });
  t.equal((await guest.goto(`${daemon.base}console/pipelines/maps`))?.status(), 403);
  t.match(
    await mainOf(guest),
    /^Console\s+Pipeline maps\s+You may not open Pipeline maps\s+The token "guest" is not for the pipeline "maps"\.\s+Use the token of this pipeline, or ask the administrator/,
  );
  await page.getByRole('link', { name: 'Log in with another token' }).click();
  await page.getByLabel('Token').fill(consoleTokens.admin);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Daemon', level: 1 }).waitFor();
});

t.test('a pipeline without runs lists the first steps', async (t) => {
  const page = await open(t, { token: consoleTokens.admin });
  await page.goto(`${daemon.base}console/pipelines/secret`);
  t.match(
    await mainOf(page),
    /Waiting for the first upload\s+[^]*The token admin may not upload to secret\. Uploads need a token with the permission upload[^]*upload_tokens[^]*export WAYBILL_TOKEN=TOKEN[^]*waybill push \.\/site/,
  );
  await page.getByRole('link', { name: 'Log in with another token' }).click();
  await page.getByLabel('Token').waitFor();
});

t.test("shows a rejection on the form's page", async (t) => {
  const page = await open(t);
  await daemon.start('library');
  await page.goto(`${daemon.base}console/runs?pipeline=library`);
  await page.locator('.runs tbody th a').first().click();
  const answers: number[] = [];
  page.on('response', (response) => {
    if (response.request().method() === 'POST') answers.push(response.status());
  });
  // The form of a page that was open when the run ended.
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  const send = async (path: string, fields: Record<string, string>): Promise<string> => {
    const response = await page.request.post(path, {
      form: { csrf, ...fields },
      headers: { accept: 'text/html' },
    });
    answers.push(response.status());
    return response.text();
  };
  const cancelled = await send(`${page.url()}/cancel`, {});
  t.match(cancelled, /Not done: [^<]*<[^]*<code>run_finished<\/code>[^]*Destinations/);
  t.notMatch(cancelled, 'http-equiv="refresh"');
  t.notMatch(cancelled, 'data-events', 'the address of a form is not followed');
  const started = await send(`${daemon.base}console/pipelines/library/start`, { channel: 'nope' });
  t.match(started, /Not done:[^]*channel_not_found[^]*Newest runs/);
  const planned = await send(`${daemon.base}console/pipelines/library/plan`, { channel: 'nope' });
  t.match(planned, /Not done:[^]*channel_not_found[^]*Make a plan/);
  const site = `${daemon.base}console/pipelines/maps/destinations/site/releases`;
  const activated = await send(`${site}/r-none/activate`, { verb: 'promote', path: '.' });
  t.match(activated, /Not done:[^]*release_not_found[^]*Releases/);
  t.strictSame(answers, [409, 404, 404, 404]);
  const forged = await page.request.post(`${page.url()}/cancel`, {
    form: { csrf: 'x' },
    headers: { accept: 'text/html' },
  });
  t.match(await forged.text(), 'form_expired');
  t.notMatch(await forged.text(), 'Not done', 'other sessions have no page');
});

t.test('a bulk rerun checks each run as a single rerun does', async (t) => {
  const { run_id: mine } = await daemon.start('library');
  const { run_id: other } = await daemon.start('blocked');
  const post = async (page: Page, form: URLSearchParams): Promise<string> => {
    const headers = { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded' };
    const response = await page.request.post(`${daemon.base}console/runs`, {
      data: form.toString(),
      headers,
    });
    return response.text();
  };
  const guest = await open(t, { token: consoleTokens.guest });
  await guest.goto(`${daemon.base}console/runs`);
  t.equal(await guest.getByRole('checkbox').count(), 0, 'a read-only token has no actions');
  const csrf = await guest.locator('input[name=csrf]').first().inputValue();
  const refused = await post(
    guest,
    new URLSearchParams([
      ['csrf', csrf],
      ['run', mine],
      ['run', other],
    ]),
  );
  t.match(refused, /2 runs were not repeated/);
  t.match(refused, /0 of 2 runs repeated/);
  t.match(refused, /scope/);
  t.match(refused, /is not for the pipeline/);
  t.match(await post(guest, new URLSearchParams([['run', mine]])), 'form_expired');
  t.match(await post(guest, new URLSearchParams([['csrf', csrf]])), 'no run is selected');
  t.match(await daemon.follow(mine), { rerunnable: true }, 'nothing was repeated');
});

t.test('a channel can be selected if there is one', async (t) => {
  const page = await open(t);
  await page.goto(`${daemon.base}console/pipelines/library/plan`);
  await page.getByLabel('Publish for').selectOption('channel preview');
  await page.getByRole('button', { name: 'Make a plan' }).click();
  t.match(await page.locator('main').innerText(), /draft/);
  t.notMatch(await page.locator('main').innerText(), /shelf/);
  await page.getByRole('button', { name: 'Run it as planned' }).click();
  await page.waitForURL(/done=started/);
  const planned = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(planned), { channel: 'preview' });
  await page.goto(`${daemon.base}console/pipelines/library`);
  await page.getByLabel('Publish for').selectOption('channel preview');
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.waitForURL(/done=started/);
  const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(id), { channel: 'preview', status: 'succeeded' });
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  const buffer = await daemon.archive({ 'index.html': 'for a preview' }, '2026-11-22T04:00:00Z');
  const file = { name: 'bundle.tar', mimeType: 'application/x-tar', buffer };
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Upload to channel preview' }).click();
  await page.waitForURL(/done=uploaded/);
  const uploaded = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(uploaded), { channel: 'preview', status: 'succeeded' });
});

t.test('without script a page reloads until its run is over', async (t) => {
  const page = await open(t);
  const held = await daemon.held(async () =>
    daemon.accept({ 'index.html': 'reloaded' }, { created: '2026-11-22T05:00:00Z' }),
  );
  for (const path of [`runs/${held.runId}`, 'pipelines/maps', '']) {
    await page.goto(`${daemon.base}console/${path}`.replace(/\/$/, ''));
    t.equal(await page.locator('meta[http-equiv=refresh]').count(), 1, path);
  }
  await page.goto(`${daemon.base}console/runs/${held.runId}`);
  await held.letGo();
  await daemon.follow(held.runId);
  // Without any input.
  await page.locator('#head').getByText('succeeded').waitFor({ timeout: 0 });
  t.equal(await page.locator('meta[http-equiv=refresh]').count(), 0, 'and then no longer');
});
