/**
 * Returns the weather commands' configuration file: the option, or else READER_CONFIG, or else config.yml.
 */
export function configFileOf(given: string | undefined): string {
  const named = process.env['READER_CONFIG'];
  return given ?? (named === undefined || named === '' ? 'config.yml' : named);
}
