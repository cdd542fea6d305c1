import { digestOf } from '../../../core/lib/digest.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { check } from '../../../core/lib/settings/check.ts';
import { id as idSetting } from '../../../core/lib/settings/kinds.ts';
import { newToken } from '../../../core/lib/token.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import type { newTokenCommand } from './commands.ts';

export async function printNewToken(
  { id, pipeline: pipelines = [] }: OptionsFor<typeof newTokenCommand>,
  { output }: Io,
): Promise<number> {
  const wrong = [id, ...pipelines].find((name) => !check(idSetting(), name).ok);
  if (wrong !== undefined)
    throw new WaybillError('usage', `"${wrong}" is not a valid id`, {
      hint: `give ${idSetting().about.expected}`,
    });
  const token = newToken();
  const digest = digestOf(token);
  const valueEnv = `WAYBILL_TOKEN_${id.toUpperCase().replaceAll('-', '_')}`;
  const setting = `{ id: ${id}, value_env: ${valueEnv}, pipelines: [${pipelines.join(', ') || 'PIPELINE'}] }`;
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
