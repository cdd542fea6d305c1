import t from 'tap';
import { chainStart, nextRecord } from '../../../../src/core/audit/record.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../../src/core/lib/secrets.ts';
import { deliver } from '../../../../src/core/notify/deliver.ts';
import { type Event, eventOf, type Occurrence } from '../../../../src/core/notify/event.ts';
import { newEventId } from '../../../../src/core/notify/event-id.ts';
import { parseTemplate } from '../../../../src/core/notify/message.ts';
import {
  chatBody,
  chatFormats,
  type ChatOptions,
  discordKind,
  slackKind,
} from '../../../../src/core/notify/sinks/chat.ts';
import { testOccurrence } from '../../../../src/core/publish/results/occurrences.ts';
import { failure } from '../messages.ts';
import { impatientClock, startReceiver } from '../receiver.ts';

const never = new AbortController().signal;
const at = new Date('2026-11-20T02:04:34.334Z');
const event = (occurrence: Occurrence): Event => eventOf(occurrence, newEventId(), at);
const plain: ChatOptions = { title: null, consoleUrl: null };
const slackText = (occurrence: Occurrence, options = plain): string =>
  (JSON.parse(chatBody(event(occurrence), chatFormats.slack, options)) as { text: string }).text;
const discordText = (occurrence: Occurrence, options = plain): string =>
  (JSON.parse(chatBody(event(occurrence), chatFormats.discord, options)) as { content: string }).content;

t.test('a failure names the failed bundle, the cause, and the fix', async (t) => {
  const consoleUrl = 'https://publish.example.org/';
  t.equal(
    slackText(failure('talk'), { title: null, consoleUrl }),
    `Failed to publish "talk" to maps/web
Pipeline: maps
Destination: web
Bundle: talk
Cause: there is content that waybill does not manage (unmanaged_content)
Next step: check the existing files
Run: maps.run1
Time: 2026-11-20 02:04:34 UTC
<https://publish.example.org/console/runs/maps.run1>`,
  );
});

t.test('a name cannot add markup, a mention or a line', async (t) => {
  const name =
    '<!channel> <@U1> @everyone @here <https://evil.example|x> *b* `c` [x](https://evil.example)\n\u202E& done';
  const slack = slackText(failure(name));
  t.match(slack, 'Bundle: &lt;!channel&gt; &lt;@U1&gt; @everyone');
  t.notMatch(slack, /[<>]/);
  t.equal(slack.split('\n').length, 8);
  t.match(JSON.parse(chatBody(event(failure(name)), chatFormats.slack, plain)), {
    mrkdwn: false,
    parse: 'none',
    link_names: false,
  });
  const discord = discordText(failure(name));
  for (const [, before = '', special = ''] of discord.matchAll(/(^|[^\\])([<>@*`[\]])/gs))
    t.fail(`${special} is not escaped after ${before}`);
  t.equal(discord.split('\n').length, 8);
  t.match(JSON.parse(chatBody(event(failure(name)), chatFormats.discord, plain)), {
    allowed_mentions: { parse: { length: 0 } },
  });
  t.notMatch(slack + discord, '\u202E');
});

t.test('a message of any length is shortened to fit, without splitting an escape', async (t) => {
  const long = '&<'.repeat(5_000);
  for (const title of [null, '{{bundle}}'.repeat(50)]) {
    const slack = slackText(failure(long, long), { title, consoleUrl: null });
    t.ok(slack.length <= 4_000 && slack.length > 500, `${slack.length} characters`);
    t.notMatch(slack, /&(?!amp;|lt;|gt;)/);
    const discord = discordText(failure('*'.repeat(9_000), '`'.repeat(9_000)), { title, consoleUrl: null });
    t.ok(discord.length <= 2_000, `${discord.length} characters`);
    t.notMatch(discord, /(^|[^\\])[*`]/);
  }
});

t.test('every type of event has a message', async (t) => {
  const about = { pipeline_id: 'maps', destination_id: 'web', destination_path: 'session-42' };
  const error = { code: 'storage_transient', message: 'no connection', hint: null, retryable: true } as const;
  const bundle = { path: 'session-42', name: null, created: null };
  const counts = {
    outputs_written: 2,
    outputs_linked: 0,
    outputs_kept: 1,
    bytes_written: 0,
    bytes_linked: 0,
    bytes_kept: 0,
  };
  const list = { outputs: [], outputs_omitted: 0 };
  for (const [occurrence, title, line] of [
    [
      {
        type: 'bundle.published',
        data: {
          ...about,
          run_id: null,
          bundle,
          action: 'publish_new',
          release: 'r1',
          channel: null,
          counts: { ...counts, outputs: 3, outputs_removed: 0 },
          ...list,
        },
      },
      'Published "session-42" to maps/web',
      'Outputs: 3 (2 written, 0 removed)',
    ],
    [
      {
        type: 'run.retry_scheduled',
        data: {
          pipeline_id: 'maps',
          destination_id: null,
          run_id: 'r',
          attempt: 2,
          next_try_at: '2026-11-20T02:05:41.120Z',
          retry_until: '2026-11-20T03:00:00Z',
          error,
        },
      },
      'Failed to publish to maps, will retry',
      'Next step: waybill tries again at 2026-11-20 02:05:41 UTC (try 2)',
    ],
    [
      {
        type: 'bundle.unpublished',
        data: {
          ...about,
          run_id: null,
          bundle: null,
          reason: 'orphan',
          counts: { outputs_removed: 4 },
          ...list,
        },
      },
      'Unpublished "session-42" from maps/web',
      'Outputs removed: 4',
    ],
    [
      { type: 'release.rolled_back', data: { ...about, release: 'r1', previous: 'r2' } },
      'Rolled back "session-42" at maps/web',
      'Previous release: r2',
    ],
    [
      { type: 'release.activated', data: { ...about, release: 'r2', previous: null } },
      'Activated a release of "session-42" at maps/web',
      'Release: r2',
    ],
    [
      {
        type: 'outputs.pruned',
        data: {
          pipeline_id: 'maps',
          destination_id: 'web',
          counts: { outputs_removed: 1, errors: 0 },
          ...list,
        },
      },
      'Pruned outputs at maps/web',
      'Outputs removed: 1',
    ],
    [
      {
        type: 'audit.recorded',
        data: {
          record: nextRecord(
            chainStart,
            {
              ...{ act: 'release.rollback', result: 'refused', code: 'forbidden', address: '203.0.113.7' },
              ...{ actor: { type: 'token', id: 'ci' }, pipelineId: 'maps' },
            },
            { time: new Date(0), host: 'h1' },
          ),
        },
      },
      'Audit: release.rollback by token ci refused (forbidden)',
      'Address: 203.0.113.7',
    ],
    [testOccurrence('chat'), 'Test of notifier chat', 'Time: 2026-11-20 02:04:34 UTC'],
  ] satisfies [Occurrence, string, string][]) {
    const lines = slackText(occurrence).split('\n');
    t.equal(lines[0], title);
    t.ok(lines.includes(line), lines.join('\n'));
  }
});

t.test('a template has only the documented fields', async (t) => {
  t.equal(
    slackText(failure('a&b'), {
      title: '<!here> {{ bundle }}: {{outcome}} {{channel}}',
      consoleUrl: null,
    }).split('\n')[0],
    '<!here> a&amp;b: failed',
  );
  for (const [template, reason] of [
    ['{{bundel}}', 'it has the unknown field "bundel"; did you mean "bundle"?'],
    ['{{constructor}}', /^it has the unknown field "constructor"; the fields are outcome, /],
    ['{{bundle}', 'it has "{{" or "}}" outside of a field'],
    ['{{{bundle}}}', undefined],
    ['x'.repeat(501), 'it has more than 500 characters'],
  ] as const) {
    const verdict = parseTemplate(template);
    if (reason === undefined) t.ok(verdict.ok);
    else t.match(verdict, { ok: false, reason });
  }
});

for (const [name, kind] of Object.entries({ slack: slackKind, discord: discordKind }))
  t.test(`${name}: retries like a webhook, and no text shows the URL`, async (t) => {
    const receiver = await startReceiver(t, (response, attempt) => {
      response.writeHead(attempt === 1 ? 429 : attempt === 2 ? 200 : 404, { 'retry-after': '2' }).end('ok');
    });
    const url = `${receiver.url}?token=s3cret`;
    const secrets = await loadSecrets({
      directory: null,
      env: { URL: url, BAD: 'slack.example.org/s3cret' },
    });
    const clock = impatientClock();
    const context = { clock, secrets, log: silentLog, neededBy: 'notifier "chat"', warn: () => undefined };
    const settings = { kind: name, urlEnv: 'URL', title: null, consoleUrl: null, timeoutMs: 5_000 };
    const sink = await kind.open(settings as never, context);
    const sent = async () => deliver(sink, event(failure('talk')), { clock, signal: never, stopping: never });
    t.match(await sent(), { delivered: true, tries: 2 });
    t.same(clock.pauses, [2_000]);
    t.match(receiver.received[0]?.body, 'Failed to publish');
    const { reason } = await sent();
    t.match(reason, /^http:\/\/127\.0\.0\.1:\d+ answered 404$/);
    await sink.close();
    t.match(await kind.reach(settings as never, { ...context, signal: never }), /nothing was sent/);
    const error = { code: 'secrets_invalid', message: /BAD.*does not begin with https/ };
    await t.rejects(kind.open({ ...settings, urlEnv: 'BAD' } as never, context), error);
  });
