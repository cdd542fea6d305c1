/*
 * Pages show times in UTC, as logs and catalogs do. Pointing at a time also shows it in the browser's time
 * zone.
 */
const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });

document.addEventListener('pointerover', ({ target }) => {
  if (!(target instanceof HTMLTimeElement) || target.title !== '') return;
  const moment = new Date(target.dateTime);
  if (!Number.isNaN(moment.getTime())) target.title = format.format(moment);
});

export {};
