import { createHash } from 'node:crypto';
import { WaybillError } from '../../../core/lib/errors.ts';
import { newToken } from '../../../core/lib/token.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import type { newTokenCommand } from './commands.ts';

/** `waybill token new`. */
export async function printNewToken(
  { id, pipeline: pipelines = ['PIPELINE'] }: OptionsFor<typeof newTokenCommand>,
  { output }: Io,
): Promise<number> {
  const wrong = [id, ...pipelines].find((name) => !isId(name) && name !== 'PIPELINE');
  if (wrong !== undefined)
    throw new WaybillError('usage', `"${wrong}" is not a valid id`, {
      hint: 'an id has at most 64 lower-case letters, digits, _ and -, and starts with a letter or digit',
    });
  const token = newToken();
  const digest = `sha256:${createHash('sha256').update(token).digest('hex')}`;
  const valueEnv = `WAYBILL_TOKEN_${id.toUpperCase().replaceAll('-', '_')}`;
  const setting = `{ id: ${id}, value_env: ${valueEnv}, pipelines: [${pipelines.join(', ')}] }`;
  output.result('token_new', { id, token, valueEnv, value: digest }, () => {
    output.data(token);
    output.note('producer: the variable WAYBILL_TOKEN, or a file for --token-file, with the token');
    output.note(`daemon: the variable ${valueEnv}, or a file of this name in secrets.directory, with`);
    output.note(`  ${digest}`);
    output.note('configuration: an entry of upload_tokens');
    output.note(`  - ${setting}`);
  });
  return 0;
}

const isId = (name: string): boolean => /^[a-z0-9][a-z0-9_-]{0,63}$/.test(name);
