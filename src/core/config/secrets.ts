import type { Finding } from '../finding.ts';

/** Values by the names of environment variables: the real environment first, then files of `secrets.directory`. */
export interface Secrets {
  /** The value, or undefined where it is absent or empty. */
  get(name: string): string | undefined;
  /** The value; throws `secrets_invalid` naming the variable and what needs it where it is absent or empty. */
  require(name: string, neededBy: string): string;
  /** One for each variable whose file was ignored because the environment says otherwise. Never holds a value. */
  readonly warnings: readonly Finding[];
}
