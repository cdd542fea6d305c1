import { execFile } from 'node:child_process';
import { maxMessageChars } from '../../../core/bundle/source-bundle.ts';
import { WaybillError } from '../../../core/lib/errors.ts';

export interface RevisionFlags {
  message?: string;
  /** False with `--no-git`. */
  git: boolean;
}

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Returns the message, commit, branch and author for a manifest's metadata. The commit comes from the
 * variables of GitHub Actions or GitLab CI, or else from the directory's git repository. Remote URLs are
 * never read. Throws `usage` if the message is not a single line of text.
 */
export async function revisionMetadata(
  directory: string,
  { message, git }: RevisionFlags,
  environment: Variables,
): Promise<Record<string, string>> {
  const found = git ? (revisionOfCi(environment) ?? (await revisionOfGit(directory, environment))) : {};
  return message === undefined ? found : { ...found, message: checkedMessage(message) };
}

function checkedMessage(message: string): string {
  const hint = `give one line of at most ${maxMessageChars} characters`;
  if (message.trim() === '') throw new WaybillError('usage', '--message is empty', { hint });
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(message))
    throw new WaybillError('usage', '--message has a line break or another control character', { hint });
  const length = Array.from(message).length;
  if (length > maxMessageChars)
    throw new WaybillError('usage', `--message has ${length} characters`, { hint });
  return message;
}

/** Returns the revision from a known CI system's variables; undefined elsewhere. */
export function revisionOfCi(environment: Variables): Record<string, string> | undefined {
  if (environment['GITHUB_ACTIONS'] === 'true')
    return given({
      commit: environment['GITHUB_SHA'],
      // Set only for pull requests, whose `GITHUB_REF_NAME` is `12/merge`.
      branch: [environment['GITHUB_HEAD_REF'], environment['GITHUB_REF_NAME']].find(
        (name) => (name ?? '') !== '',
      ),
      author: environment['GITHUB_ACTOR'],
    });
  if (environment['GITLAB_CI'] === 'true')
    return given({
      commit: environment['CI_COMMIT_SHA'],
      branch: environment['CI_COMMIT_REF_NAME'],
      author: environment['CI_COMMIT_AUTHOR']?.replace(/\s*<[^<>]*>$/, ''),
    });
  return undefined;
}

/**
 * Returns the revision from git. It is empty outside a repository, without a commit, or if git is not
 * installed.
 */
async function revisionOfGit(directory: string, environment: Variables): Promise<Record<string, string>> {
  const [commit = '', author = ''] = (await git(directory, environment, logArguments)).split('\0');
  if (commit === '') return {};
  const branch = await git(directory, environment, ['symbolic-ref', '--quiet', '--short', 'HEAD']);
  return given({ commit, branch, author });
}

const logArguments = ['log', '-1', '--no-show-signature', '--no-color', '--format=%H%x00%an'];
const gitTimeoutMs = 5_000;

/**
 * Returns git's output, or an empty string if git fails. Variables that could select another repository are
 * not passed on.
 */
function git(directory: string, environment: Variables, args: readonly string[]): Promise<string> {
  const env = { PATH: environment['PATH'], HOME: environment['HOME'], LC_ALL: 'C.UTF-8' };
  return new Promise((resolve) => {
    execFile(
      'git',
      ['-C', directory, ...args],
      {
        env: { ...env, GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0' },
        timeout: gitTimeoutMs,
        killSignal: 'SIGKILL',
      },
      (error, stdout) => resolve(error === null ? stdout.trim() : ''),
    );
  });
}

function given(values: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''),
  );
}
