import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import path from 'node:path';
import { ensureInstalled } from '../services/debian.ts';

/** The number of the system call `renameat2`, for which neither Node.js nor Perl has a name. */
const systemCalls: Partial<Record<NodeJS.Architecture, number>> = { x64: 316, arm64: 276 };

/** Reads `one NUL other NEWLINE` and answers with a byte. -100 is AT_FDCWD, and 2 is RENAME_EXCHANGE. */
const program = `
open(my $asked, '<', $ARGV[1]) or die; open(my $answers, '>', $ARGV[2]) or die;
while (my $line = <$asked>) {
  chomp $line;
  my ($one, $other) = split /\\0/, $line;
  syswrite $answers, syscall($ARGV[0] + 0, -100, $one, -100, $other, 2) == 0 ? '1' : '0';
}`;

/**
 * Exchanges two names while the event loop is blocked, as another process could between any two system
 * calls.
 */
export interface NameExchanger {
  exchange(one: string, other: string): void;
  close(): void;
}

/** `directory` gets the pipes to the helper process. Throws on processors that the table lacks. */
export async function nameExchanger(directory: string): Promise<NameExchanger> {
  await ensureInstalled('perl');
  const number = systemCalls[process.arch];
  if (number === undefined) throw new Error(`the number of renameat2 is unknown for ${process.arch}`);
  const pipes = [path.join(directory, 'asked'), path.join(directory, 'answers')] as const;
  if (spawnSync('mkfifo', pipes).status !== 0) throw new Error('mkfifo failed');
  // Opened for reading and writing, so that neither open waits for the other end. The test replaces
  // functions of `fs`, so these calls bypass it.
  const [read, write, close] = [readSync, writeSync, closeSync];
  const [asked, answers] = [openSync(pipes[0], 'r+'), openSync(pipes[1], 'r+')];
  const helper = spawn('perl', ['-e', program, `${number}`, ...pipes], { stdio: 'inherit' });
  const answer = Buffer.alloc(1);
  return {
    exchange(one, other) {
      write(asked, `${one}\0${other}\n`);
      read(answers, answer, 0, 1, null);
      if (answer.toString() !== '1') throw new Error(`"${one}" and "${other}" could not be exchanged`);
    },
    close() {
      helper.kill();
      close(asked);
      close(answers);
    },
  };
}
