// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A driver of cpufreq for machines without one: each CPU is a policy of its own, with two clocks that exist in
 * memory alone. What is above it (governors, sysfs, what is refused) is the kernel's.
 */
#include <linux/cpufreq.h>
#include <linux/module.h>
#include <linux/percpu.h>

#define SLOW_KHZ 1200000
#define FAST_KHZ 3600000

static struct cpufreq_frequency_table clocks[] = {
	{ .frequency = SLOW_KHZ },
	{ .frequency = FAST_KHZ },
	{ .frequency = CPUFREQ_TABLE_END },
};
static DEFINE_PER_CPU(unsigned int, now_khz) = SLOW_KHZ;

static int clock_init(struct cpufreq_policy *policy)
{
	policy->freq_table = clocks;
	policy->cpuinfo.transition_latency = 20000; /* ns */
	policy->cur = per_cpu(now_khz, policy->cpu);
	return 0;
}

static int clock_set(struct cpufreq_policy *policy, unsigned int index)
{
	per_cpu(now_khz, policy->cpu) = clocks[index].frequency;
	return 0;
}

static unsigned int clock_get(unsigned int cpu)
{
	return per_cpu(now_khz, cpu);
}

static struct cpufreq_driver clock_driver = {
	.name = "railyard_clock",
	.init = clock_init,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = clock_set,
	.get = clock_get,
	.attr = cpufreq_generic_attr,
};

static int __init clock_start(void)
{
	return cpufreq_register_driver(&clock_driver);
}

static void __exit clock_stop(void)
{
	cpufreq_unregister_driver(&clock_driver);
}

module_init(clock_start);
module_exit(clock_stop);
MODULE_DESCRIPTION("Two clocks that exist in memory alone, for tests");
MODULE_LICENSE("GPL");
