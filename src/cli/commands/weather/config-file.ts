/**
 * Returns the configuration file for the weather commands. It comes from the option, or else from
 * READER_CONFIG. The default is config.yml.
 */
export function configFileOf(file: string | undefined): string {
  const named = process.env['READER_CONFIG'];
  return file ?? (named === undefined || named === '' ? 'config.yml' : named);
}
