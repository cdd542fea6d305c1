import { execFile } from 'node:child_process';
import { maxMessageChars } from '../../../core/bundle/source-bundle.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import type { Environment } from '../../../core/lib/secrets.ts';

interface RevisionFlags {
  message?: string;
  /** False if `--no-git` was given. */
  git: boolean;
}

/**
 * Returns the message, commit, branch and author to add to a manifest. They come from the environment
 * variables of GitHub Actions or GitLab CI or, elsewhere, from the git repository that the directory is in.
 * The URLs of git remotes are never read, because they can contain credentials. Throws a `usage` error if the
 * message is not a single line of text.
 */
export async function revisionMetadata(
  directory: string,
  { message, git }: RevisionFlags,
  environment: Environment,
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

/**
 * Reads the revision from the environment variables of a CI system. Returns undefined if this is not one that
 * we know.
 */
export function revisionOfCi(environment: Environment): Record<string, string> | undefined {
  if (environment['GITHUB_ACTIONS'] === 'true')
    return definedValues({
      commit: environment['GITHUB_SHA'],
      // For pull requests, `GITHUB_REF_NAME` is `12/merge`, so prefer this variable, which is only set for
      // them.
      branch: [environment['GITHUB_HEAD_REF'], environment['GITHUB_REF_NAME']].find(
        (name) => (name ?? '') !== '',
      ),
      author: environment['GITHUB_ACTOR'],
    });
  if (environment['GITLAB_CI'] === 'true')
    return definedValues({
      commit: environment['CI_COMMIT_SHA'],
      branch: environment['CI_COMMIT_REF_NAME'],
      author: environment['CI_COMMIT_AUTHOR']?.replace(/\s*<[^<>]*>$/, ''),
    });
  return undefined;
}

/**
 * Asks git for the revision. Returns nothing if the directory is not in a repository, there are no commits
 * yet, or git is not installed.
 */
async function revisionOfGit(directory: string, environment: Environment): Promise<Record<string, string>> {
  const [commit = '', author = ''] = (await git(directory, environment, logArguments)).split('\0');
  if (commit === '') return {};
  const branch = await git(directory, environment, ['symbolic-ref', '--quiet', '--short', 'HEAD']);
  return definedValues({ commit, branch, author });
}

const logArguments = ['log', '-1', '--no-show-signature', '--no-color', '--format=%H%x00%an'];
const gitTimeoutMs = 5_000;

/**
 * Runs git and returns its output, or an empty string if it fails. Environment variables that could make git
 * use a different repository are not passed on.
 */
function git(directory: string, environment: Environment, args: readonly string[]): Promise<string> {
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

function definedValues(values: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''),
  );
}
