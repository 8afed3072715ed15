// Quartz: one process that keeps its jobs in memory and runs them. The contract is in contract.py.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Date;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

public class Quartz {
  static final String PAYLOAD = "x".repeat(100);
  static final int AT_ONCE = 1000;
  static final int FLUSH_MS = 100;
  static final ConcurrentLinkedQueue<Ran> RAN = new ConcurrentLinkedQueue<>();

  record Ran(long number, double at) {}

  public static class Noop implements Job {
    @Override
    public void execute(JobExecutionContext context) {
      int number = context.getTrigger().getJobDataMap().getInt("number");
      RAN.add(new Ran(number, System.currentTimeMillis() / 1000.0));
    }
  }

  public static void main(String[] words) throws Exception {
    String kind = words[1];
    int count = Integer.parseInt(words[2]);
    long atMs = Long.parseLong(words[3]);
    long overMs = Long.parseLong(words[4]);
    Scheduler scheduler = new StdSchedulerFactory(settings()).getScheduler();
    Map<JobDetail, Set<? extends Trigger>> batch = new HashMap<>();
    for (int number = 0; number < count; number++) {
      long dueMs = kind.equals("immediate") ? System.currentTimeMillis() : atMs + number * overMs / count;
      // A job of its own for each trigger: those of one job exclude each other while one is fired.
      batch.put(
          JobBuilder.newJob(Noop.class).withIdentity("job-" + number).build(),
          Set.of(trigger(number, dueMs, kind.equals("recurring"))));
      if (batch.size() == AT_ONCE || number == count - 1) {
        scheduler.scheduleJobs(batch, true);
        batch.clear();
      }
    }
    Files.createFile(file("ready"));
    scheduler.start();
    writeRecords();
  }

  static Properties settings() {
    Properties settings = new Properties();
    settings.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
    settings.setProperty("org.quartz.jobStore.class", "org.quartz.simpl.RAMJobStore");
    settings.setProperty("org.quartz.jobStore.misfireThreshold", "600000");
    settings.setProperty("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
    settings.setProperty("org.quartz.threadPool.threadCount", "10");
    settings.setProperty("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", "10");
    return settings;
  }

  static Trigger trigger(int number, long dueMs, boolean isRecurring) {
    SimpleScheduleBuilder schedule =
        isRecurring
            ? SimpleScheduleBuilder.simpleSchedule().withIntervalInHours(1).repeatForever()
            : SimpleScheduleBuilder.simpleSchedule();
    return TriggerBuilder.newTrigger()
        .withIdentity("trigger-" + number)
        .usingJobData("number", number)
        .usingJobData("payload", PAYLOAD)
        .startAt(new Date(dueMs))
        .withSchedule(schedule.withMisfireHandlingInstructionIgnoreMisfires())
        .build();
  }

  static void writeRecords() throws IOException, InterruptedException {
    Path records = file("records");
    while (true) {
      Thread.sleep(FLUSH_MS);
      int count = RAN.size();
      ByteBuffer bytes = ByteBuffer.allocate(16 * count).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < count; i++) {
        Ran ran = RAN.poll();
        bytes.putLong(ran.number()).putDouble(ran.at());
      }
      Files.write(records, bytes.array(), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
  }

  static Path file(String ending) {
    return Path.of(System.getenv("PEER_RECORDS"), ProcessHandle.current().pid() + "." + ending);
  }
}
