/**
 * `npm test [FILE…]`: runs tap, and ends with one plain line, `N passed, N failed[, N skipped]`, that any CI
 * can read. Under CI a skipped test fails the run: a service that is missing there is a defect of the set-up.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';

const report = '.tap/report.tap';
mkdirSync('.tap', { recursive: true });
rmSync(report, { force: true });

// tap assembles its plugins once into node_modules; a fresh `npm ci` has not done so for this configuration.
run(['build'], 'pipe');
const status = run(['--reporter=base', `--output-file=${report}`, ...process.argv.slice(2)], 'inherit');

const counts = readCounts();
const skipped = counts.skip + counts.todo;
for (const line of toldByTheTests()) console.log(line);
console.log(`\n${counts.pass} passed, ${counts.fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
if (counts.pass === 0) fail('no test ran');
if (skipped > 0 && process.env['CI']) fail('a test was skipped, which CI does not allow');
process.exit(status);

function run(args: string[], stdio: 'inherit' | 'pipe'): number {
  const result = spawnSync('node_modules/.bin/tap', args, { stdio, encoding: 'utf8' });
  if (result.error) throw result.error;
  if (stdio === 'pipe' && result.status !== 0)
    fail(`tap ${args.join(' ')} failed:\n${result.stdout}${result.stderr}`);
  return result.status ?? 1;
}

/** Reads tap's own closing comment, `# { total: 3, pass: 3 }`; whatever it leaves out is zero. */
function readCounts(): Record<'pass' | 'fail' | 'skip' | 'todo', number> {
  const closing =
    readFileSync(report, 'utf8')
      .match(/^# \{.*\}$/gm)
      ?.at(-1) ?? '';
  const count = (name: string): number => Number(new RegExp(`\\b${name}: (\\d+)`).exec(closing)?.[1] ?? 0);
  return { pass: count('pass'), fail: count('fail'), skip: count('skip'), todo: count('todo') };
}

/**
 * What tests say is worth seeing beside their number: comments that begin with `told:`, in the order of the
 * files.
 */
function toldByTheTests(): string[] {
  return [...readFileSync(report, 'utf8').matchAll(/^ *# told: (.*)$/gm)]
    .map(([, what]) => what as string)
    .sort();
}

function fail(message: string): never {
  console.error(`npm test: ${message}`);
  process.exit(1);
}
