/* Checks whether a version can be released. `npm run package -- --release` stops if there is a problem. */

/**
 * Returns a list of problems, each as a sentence. The list is empty if the version can be published. `tags`
 * are the tags of the commit, `changes` the files that have not been committed, and `repository` is the
 * result of `chosenRepository`.
 */
export function releaseProblems({ manifest, repository, changelog, tags, changes }) {
  const { version, publishConfig } = manifest;
  const [, heading = ''] = /^## (.*)$/m.exec(changelog) ?? [];
  const isDated = new RegExp(String.raw`^\[${version.replaceAll('.', String.raw`\.`)}\] - \d{4}-\d\d-\d\d$`);
  return [
    ...(isDated.test(heading)
      ? []
      : [`CHANGELOG.md begins with "## ${heading}", and not with "## [${version}] - YYYY-MM-DD"`]),
    ...(publishConfig?.provenance === true && repository.problem !== undefined
      ? [`npm takes no provenance without a repository: ${repository.problem}`]
      : []),
    ...(tags.includes(`v${version}`) ? [] : [`the commit has no tag v${version}`]),
    ...(changes.length === 0 ? [] : [`git has not got as they are: ${changes.join(', ')}`]),
  ];
}
