/**
 * Compares `waybill push` with common ways to upload. Over a connection that keeps breaking, it is compared
 * with `curl --retry` behind nginx, for the same archive. For a site in which one percent of the files have
 * changed, it is compared with `rsync -z` over ssh, uploading everything, and `tar | curl`. Environment:
 * BENCH_CUT_MIB, the size of the archive (500), BENCH_CUTS (50), BENCH_SITE_MIB (1024), and
 * WAYBILL_BENCH_ROUNDS, how often the site changes (5).
 */
import { spawnSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type CuttingProxy, startCuttingProxy } from '../test/services/cutting-proxy.ts';
import { startSshd } from '../test/services/sshd.ts';
import { writeBundle } from './bundle-files.ts';
import { cutLine } from './cut-line.ts';
import { startDaemon, token } from './daemon.ts';
import { waybill } from './local.ts';
import { goal, measureBeside, type Sample } from './measure.ts';

const siteMiB = Number(process.env['BENCH_SITE_MIB'] ?? 1024);
const fileBytes = 256 << 10;
const changedShare = 0.01;
const rounds = Number(process.env['WAYBILL_BENCH_ROUNDS'] ?? 5);

/** Returns true if all goals were reached. */
export async function push(): Promise<boolean> {
  if (spawnSync('rsync', ['--version'], { stdio: 'ignore' }).error !== undefined)
    throw new Error('rsync is what this bench compares with: install it (Debian: apt-get install rsync)');
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const reached = [await cutLine(path.join(root, 'cut')), await oneOfAHundred(path.join(root, 'site'))];
    return reached.every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** A way to upload the site, with the results of all rounds. */
interface Way {
  name: string;
  line: CuttingProxy;
  command: readonly string[];
  samples: (Sample & { sent: number })[];
}

async function oneOfAHundred(root: string): Promise<boolean> {
  const releases: (() => unknown)[] = [];
  const t = { teardown: (release: () => unknown) => void releases.push(release) };
  const site = path.join(root, 'site');
  const files = (siteMiB << 20) / fileBytes;
  writeBundle(site, files, fileBytes);
  // Normally, there is no manifest in the directory, and each push generates one.
  rmSync(path.join(site, 'manifest.json'));
  try {
    const daemon = await startDaemon({ root: path.join(root, 'daemon'), pipelines: 3 });
    releases.push(() => daemon.stop());
    const sshd = await startSshd(t);
    const line = await startCuttingProxy(t, Number(new URL(daemon.url).port));
    const ssh = await startCuttingProxy(t, sshd.port);
    const url = `http://127.0.0.1:${line.port}`;
    const pushTo = (pipeline: string): string[] => [
      ...[...waybill, 'push', site, '--to', url, '--pipeline', pipeline, '--name', 'site'],
    ];
    const shell = `ssh -p ${ssh.port} -i ${sshd.clientKeyFile} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR`;
    const theirs = `${sshd.user}@127.0.0.1:${sshd.root}/site`;
    const curl = `tar -C ${root}/listed -cz . | curl -sS --fail-with-body -o /dev/null -X POST -T - -H "Authorization: Bearer ${token}" -H 'Content-Type: application/gzip' ${url}/v1/pipelines/p2/upload`;
    const changing = [
      way('waybill push', line, pushTo('p0')),
      way('rsync -z over ssh', ssh, ['rsync', '-az', '--delete', '-e', shell, `${site}/`, theirs]),
    ];
    const whole = [
      way('waybill push --whole', line, [...pushTo('p1'), '--whole']),
      way('tar | curl, to acceptance', line, ['sh', '-c', curl]),
    ];
    // The first round uploads everything, so it does not count.
    for (const each of changing) await go(each);
    for (const each of changing) each.samples = [];
    for (let round = 0; round < rounds; round += 1) {
      change(site, Math.round(files * changedShare));
      for (const each of changing) await go(each);
    }
    withManifest(site, path.join(root, 'listed'));
    for (const each of whole) await go(each);
    return tellSite([...changing, ...whole], files * fileBytes);
  } finally {
    for (const release of releases.reverse()) await release();
  }
}

const way = (name: string, line: CuttingProxy, command: readonly string[]): Way => ({
  ...{ name, line, command },
  samples: [],
});

async function go({ line, command, samples }: Way): Promise<void> {
  spawnSync('sync');
  const before = line.passed('to the server') + line.passed('from the server');
  const sample = await measureBeside(command, { WAYBILL_TOKEN: token });
  const sent = line.passed('to the server') + line.passed('from the server') - before;
  samples.push({ ...sample, sent });
}

/** Changes the content of this many files all over the site. */
function change(site: string, count: number): void {
  const names = readdirSync(site, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const step = Math.floor(names.length / count);
  const first = Math.floor(Math.random() * step);
  for (let index = 0; index < count; index += 1)
    writeFileSync(names[first + index * step]!, randomFillSync(Buffer.allocUnsafe(fileBytes)));
}

/**
 * Creates what a producer without waybill would upload: links to the site's files, and the manifest that is
 * required.
 */
function withManifest(site: string, listed: string): void {
  mkdirSync(listed);
  spawnSync('cp', ['-al', `${site}/.`, listed]);
  const { status, stderr } = spawnSync(waybill[0]!, [...waybill.slice(1), 'pack', listed, '--manifest-only']);
  if (status !== 0) throw new Error(stderr.toString());
}

function tellSite(ways: readonly Way[], bytes: number): boolean {
  console.log(`\na site of ${siteMiB} MiB in files of 256 KiB, of which one in a hundred has changed`);
  const medians = ways.map(({ name, samples }) => {
    const of = (pick: (sample: Sample & { sent: number }) => number): number =>
      samples.map(pick).toSorted((a, b) => a - b)[Math.floor(samples.length / 2)]!;
    const [seconds, cpu, sent] = [
      of((each) => each.seconds),
      of((each) => each.cpuSeconds),
      of((each) => each.sent),
    ];
    console.log(
      `  ${name.padEnd(28)} ${seconds.toFixed(2).padStart(8)} s ${cpu.toFixed(2).padStart(8)} s CPU ${(sent / 2 ** 20).toFixed(1).padStart(8)} MiB on the wire, ${((100 * sent) / bytes).toFixed(2)} %`,
    );
    return { seconds, sent };
  });
  const [ours, rsync, whole] = medians;
  console.log(
    `  ${(ours!.seconds / rsync!.seconds).toFixed(2)} × the time of rsync, ${(ours!.seconds / whole!.seconds).toFixed(2)} × the time of the whole upload`,
  );
  const share = (100 * ours!.sent) / bytes;
  return goal(`${share.toFixed(2)} % of the site on the wire (goal at most 2 %)`, share <= 2);
}
