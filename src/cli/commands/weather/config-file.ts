/** The configuration file of the weather commands: the option, else READER_CONFIG, else config.yml. */
export function configFileOf(given: string | undefined): string {
  const named = process.env['READER_CONFIG'];
  return given ?? (named === undefined || named === '' ? 'config.yml' : named);
}
